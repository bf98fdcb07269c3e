//go:build schedulerplugins

package main

// edit replaces text in a file below pkg/.
type edit struct{ file, old, new string }

// queuedPodInfoSource declares an interface for queued pods. In the contract of 1.37 the
// entities that QueueSort plugins compare have no method that returns the pod; those of
// kube-scheduler and of Berth do.
const queuedPodInfoSource = `
type queuedPodInfo interface {
	fwk.QueuedEntityInfo
	GetPodInfo() fwk.PodInfo
}

`

// edits are the changes that Kubernetes 1.37 requires, grouped by reason.
var edits = []edit{
	// fwk.QueuedPodInfo became fwk.QueuedEntityInfo.
	{"coscheduling/coscheduling.go",
		"// Less is used to sort pods", queuedPodInfoSource + "// Less is used to sort pods"},
	{"coscheduling/coscheduling.go",
		"Less(podInfo1, podInfo2 fwk.QueuedPodInfo) bool {",
		"Less(entry1, entry2 fwk.QueuedEntityInfo) bool {\n\tpodInfo1, podInfo2 := entry1.(queuedPodInfo), entry2.(queuedPodInfo)"},
	{"networkaware/topologicalsort/topologicalsort.go",
		"// Less is the function used by", queuedPodInfoSource + "// Less is the function used by"},
	{"networkaware/topologicalsort/topologicalsort.go",
		"Less(pInfo1, pInfo2 fwk.QueuedPodInfo) bool {",
		"Less(entry1, entry2 fwk.QueuedEntityInfo) bool {\n\tpInfo1, pInfo2 := entry1.(queuedPodInfo), entry2.(queuedPodInfo)"},
	{"qos/queue_sort.go",
		"// Less is the function used by", queuedPodInfoSource + "// Less is the function used by"},
	{"qos/queue_sort.go",
		"Less(pInfo1, pInfo2 fwk.QueuedPodInfo) bool {",
		"Less(entry1, entry2 fwk.QueuedEntityInfo) bool {\n\tpInfo1, pInfo2 := entry1.(queuedPodInfo), entry2.(queuedPodInfo)"},

	// A method of preemption.Interface has one more parameter, and NewEvaluator takes an Executor.
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
