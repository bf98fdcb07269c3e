//go:build schedulerplugins

package main

// edit replaces one piece of text in a file below pkg/.
type edit struct{ file, old, new string }

// What QueueSort plugins compare has no method for the pod in the contract of 1.37:
// the entries of kube-scheduler and of Berth have it besides.
const podOfEntry = `
type queuedPodInfo interface {
	fwk.QueuedEntityInfo
	GetPodInfo() fwk.PodInfo
}

`

// edits are what 1.37 asks of the plugins, by why.
var edits = []edit{
	// fwk.QueuedPodInfo has become fwk.QueuedEntityInfo.
	{"coscheduling/coscheduling.go",
		"// Less is used to sort pods", podOfEntry + "// Less is used to sort pods"},
	{"coscheduling/coscheduling.go",
		"Less(podInfo1, podInfo2 fwk.QueuedPodInfo) bool {",
		"Less(entry1, entry2 fwk.QueuedEntityInfo) bool {\n\tpodInfo1, podInfo2 := entry1.(queuedPodInfo), entry2.(queuedPodInfo)"},
	{"networkaware/topologicalsort/topologicalsort.go",
		"// Less is the function used by", podOfEntry + "// Less is the function used by"},
	{"networkaware/topologicalsort/topologicalsort.go",
		"Less(pInfo1, pInfo2 fwk.QueuedPodInfo) bool {",
		"Less(entry1, entry2 fwk.QueuedEntityInfo) bool {\n\tpInfo1, pInfo2 := entry1.(queuedPodInfo), entry2.(queuedPodInfo)"},
	{"qos/queue_sort.go",
		"// Less is the function used by", podOfEntry + "// Less is the function used by"},
	{"qos/queue_sort.go",
		"Less(pInfo1, pInfo2 fwk.QueuedPodInfo) bool {",
		"Less(entry1, entry2 fwk.QueuedEntityInfo) bool {\n\tpInfo1, pInfo2 := entry1.(queuedPodInfo), entry2.(queuedPodInfo)"},

	// preemption.Interface has one more parameter, and NewEvaluator takes an Executor.
	{"capacityscheduling/capacity_scheduling.go",
		`"k8s.io/kubernetes/pkg/scheduler/framework/preemption"`,
		"\"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature\"\n\t\"k8s.io/kubernetes/pkg/scheduler/framework/preemption\""},
	{"capacityscheduling/capacity_scheduling.go",
		"false, // enableAsyncPreemption", "preemption.NewExecutor(c.fh, feature.Features{}),"},
	{"capacityscheduling/capacity_scheduling.go",
		"nodeInfo fwk.NodeInfo,\n\tpdbs ", "nodeInfo fwk.NodeInfo,\n\t_ []*preemption.DomainVictim,\n\tpdbs "},
	{"preemptiontoleration/preemption_toleration.go",
		`"k8s.io/kubernetes/pkg/scheduler/framework/preemption"`,
		"\"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature\"\n\t\"k8s.io/kubernetes/pkg/scheduler/framework/preemption\""},
	{"preemptiontoleration/preemption_toleration.go",
		"false, // enableAsyncPreemption", "preemption.NewExecutor(pl.fh, feature.Features{}),"},
	{"preemptiontoleration/preemption_toleration.go",
		"nodeInfo fwk.NodeInfo,\n\tpdbs ", "nodeInfo fwk.NodeInfo,\n\t_ []*preemption.DomainVictim,\n\tpdbs "},
}
