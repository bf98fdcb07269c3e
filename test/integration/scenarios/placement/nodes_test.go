package placement

import (
	. "github.com/onsi/ginkgo/v2"
	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/test/support/fixture"
)

// oneNode is a node with three CPUs and 3G of memory.
func oneNode() []*fixture.NodeBuilder {
	return nodes(fixture.Node("a").Capacity("cpu", "3", "memory", "3G"))
}

func podWithRequests(name, cpu, memory string) *fixture.PodBuilder {
	return fixture.Pod(name).Requests("cpu", cpu, "memory", memory)
}

var _ = table("A pod and the resources of a node:",
	entry("less is free than it requests", scenario{
		nodes: oneNode(), existing: pods(podWithRequests("old", "2", "2G").On("a")),
		pod: podWithRequests("new", "2", "2G"), want: unschedulable("1 Insufficient cpu, 1 Insufficient memory"),
	}),
	entry("enough is free", scenario{
		nodes: oneNode(), existing: pods(podWithRequests("old", "1", "1G").On("a")),
		pod: podWithRequests("new", "1", "1G"), want: boundTo("a"),
	}),
	entry("the node has no room for another pod", scenario{
		nodes: nodes(fixture.Node("a").Capacity("pods", "1")), existing: pods(fixture.Pod("old").On("a")),
		pod: fixture.Pod("new"), want: unschedulable("1 Too many pods"),
	}),
	entry("pods of other schedulers count", scenario{
		nodes:    nodes(fixture.Node("a").Capacity("cpu", "500m", "memory", "500")),
		existing: pods(podWithRequests("one", "200m", "200").On("a").SchedulerName("other-1"), podWithRequests("two", "200m", "200").On("a").SchedulerName("other-2")),
		pod:      podWithRequests("new", "200m", "200"), want: unschedulable("1 Insufficient cpu, 1 Insufficient memory"),
	}),
	// The API server defaults allocatable to capacity.
	entry("allocatable counts, which is the capacity until the node reports less", scenario{
		nodes: nodes(fixture.Node("a").Mutate(func(n *v1.Node) {
			n.Status.Capacity, n.Status.Allocatable = fixture.Resources("pods", "32", "cpu", "30m", "memory", "30"), nil
		})),
		pod: podWithRequests("first", "20m", "20"), want: boundTo("a"),
		steps: []step{
			updateNodeStatus("a", func(n *v1.Node) { n.Status.Allocatable = fixture.Resources("pods", "32", "cpu", "10m", "memory", "10") }),
			addNode(lastNode()), // the status is known when this node is
			deletePod("first"),
			addPod(podWithRequests("second", "20m", "20"), unschedulable("1 Insufficient cpu, 1 Insufficient memory, 1 "+untoleratedTaint)),
		},
	}),
)

var (
	ssdNode   = func() *fixture.NodeBuilder { return fixture.Node("fast").Label("disk", "ssd") }
	hddNode   = func() *fixture.NodeBuilder { return fixture.Node("slow").Label("disk", "hdd") }
	plainNode = func() *fixture.NodeBuilder { return fixture.Node("bare") }
)

// labelDoesNotExist returns the requirement DoesNotExist.
func labelDoesNotExist(key string) v1.NodeSelectorRequirement {
	return v1.NodeSelectorRequirement{Key: key, Operator: v1.NodeSelectorOpDoesNotExist}
}

func withNodeAffinity(requirements ...v1.NodeSelectorRequirement) *fixture.PodBuilder {
	return fixture.Pod("new").RequireNodeAffinity(fixture.NodeSelectorTerm(requirements...))
}

var _ = table("A pod with node affinity",
	entry("fits on the node that has the value", scenario{
		nodes: nodes(ssdNode(), hddNode()), pod: withNodeAffinity(fixture.In("disk", "ssd")), want: boundTo("fast"),
	}),
	entry("fits on no node when none has the value", scenario{
		nodes: nodes(ssdNode()), pod: withNodeAffinity(fixture.In("disk", "hdd")), want: unschedulable("1 " + nodeAffinityMismatch),
	}),
	entry("fits on no node when all have the excluded value", scenario{
		nodes: nodes(hddNode(), fixture.Node("slow2").Label("disk", "hdd")), pod: withNodeAffinity(fixture.NotIn("disk", "hdd")), want: unschedulable("2 " + nodeAffinityMismatch),
	}),
	entry("fits on the node that has the label", scenario{
		nodes: nodes(ssdNode(), plainNode()), pod: withNodeAffinity(fixture.Exists("disk")), want: boundTo("fast"),
	}),
	entry("fits on no node when all have the excluded label", scenario{
		nodes: nodes(ssdNode(), hddNode()), pod: withNodeAffinity(labelDoesNotExist("disk")), want: unschedulable("2 " + nodeAffinityMismatch),
	}),
	entry("fits on the node that has the label and the name", scenario{
		nodes: nodes(ssdNode(), plainNode()),
		pod: fixture.Pod("new").RequireNodeAffinity(v1.NodeSelectorTerm{
			MatchExpressions: fixture.NodeSelectorTerm(fixture.In("disk", "ssd")).MatchExpressions,
			MatchFields:      fixture.NodeNameTerm("fast").MatchFields,
		}),
		want: boundTo("fast"),
	}),
	entry("fits on no node when the named node does not exist", scenario{
		nodes: nodes(ssdNode()), pod: fixture.Pod("new").RequireNodeAffinity(fixture.NodeNameTerm("gone")),
		want: unschedulable("1 node(s) didn't satisfy plugin(s) [NodeAffinity]"),
	}),
)

// restartFeature is the node feature that restartPod needs.
const restartFeature = "RestartAllContainersOnContainerExits"

// restartPod restarts all its containers when one exits with 42.
func restartPod() *fixture.PodBuilder {
	return fixture.Pod("new").Mutate(func(pod *v1.Pod) {
		pod.Spec.Containers = []v1.Container{{
			Name: "c0", RestartPolicy: new(v1.ContainerRestartPolicyNever),
			RestartPolicyRules: []v1.ContainerRestartRule{{
				Action:    v1.ContainerRestartRuleActionRestartAllContainers,
				ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
			}},
		}}
	})
}

var _ = table("A pod and the declared features of a node:",
	entry("it needs none, and there are none", scenario{
		nodes: nodes(fixture.Node("a")), pod: fixture.Pod("new"), want: boundTo("a"),
	}),
	entry("it needs none, and there is one", scenario{
		nodes: nodes(fixture.Node("a").DeclaredFeatures(restartFeature)), pod: fixture.Pod("new"), want: boundTo("a"),
	}),
	entry("it needs the one that one of two nodes has", scenario{
		nodes: nodes(fixture.Node("a").DeclaredFeatures(restartFeature), fixture.Node("b").DeclaredFeatures("Other")), pod: restartPod(), want: boundTo("a"),
	}),
	entry("it needs one and the node has another", scenario{
		nodes: nodes(fixture.Node("a").DeclaredFeatures("Other")), pod: restartPod(), want: unschedulable("1 " + missingFeatures),
		steps: []step{
			updateNodeStatus("a", func(n *v1.Node) { n.Status.DeclaredFeatures = []string{"Other", restartFeature} }),
			expectPod("new", boundTo("a")),
		},
	}),
	entry("it needs one of several", scenario{
		nodes: nodes(fixture.Node("a").DeclaredFeatures("Other", restartFeature), fixture.Node("b")), pod: restartPod(), want: boundTo("a"),
	}),
)

// containerKind says which container of a pod has the port.
type containerKind string

const (
	container containerKind = "a container"
	// initContainer ends before the containers start.
	initContainer containerKind = "an init container"
	// sidecar is an init container that keeps running.
	sidecar containerKind = "a sidecar"
)

// podWithPorts returns a pod with a container that has ports.
func podWithPorts(name string, kind containerKind, ports ...v1.ContainerPort) *fixture.PodBuilder {
	return fixture.Pod(name).Mutate(func(pod *v1.Pod) {
		listener := v1.Container{Name: "listener", Ports: ports}
		switch kind {
		case container:
			pod.Spec.Containers = append(pod.Spec.Containers, listener)
			return
		case sidecar:
			listener.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, listener)
	})
}

// containerPort is a port of the pod only, hostPort a port of the node.
func containerPort(port int32) v1.ContainerPort {
	return v1.ContainerPort{ContainerPort: port, Protocol: v1.ProtocolTCP}
}

func hostPort(port int32) v1.ContainerPort { return hostPortAt("", v1.ProtocolTCP, port) }

func hostPortAt(ip string, protocol v1.Protocol, port int32) v1.ContainerPort {
	return v1.ContainerPort{HostIP: ip, Protocol: protocol, HostPort: port, ContainerPort: port}
}

var (
	fits  = boundTo("a")
	taken = unschedulable("1 " + noFreePorts)
)

// portScenario has a pod on the only node, and a pod that is created.
func portScenario(old, pod *fixture.PodBuilder, want result) scenario {
	return scenario{nodes: nodes(fixture.Node("a")), existing: pods(old.On("a")), pod: pod, want: want}
}

// Each two kinds in both orders: the scheduler reads the ports of existing pods and of the
// new one in different places.
var _ = func() bool {
	const same, another = 8001, 8002
	var entries []TableEntry
	for _, kinds := range []struct {
		old, new containerKind
		clash    result
	}{
		{container, container, taken},
		{initContainer, container, fits},
		{sidecar, container, taken},
		{container, initContainer, fits},
		{container, sidecar, taken},
	} {
		begin := string(kinds.new) + " of the pod and " + string(kinds.old) + " of an existing one "
		for _, c := range []struct {
			sentence string
			old, new v1.ContainerPort
			want     result
		}{
			{"have the same container port", containerPort(same), containerPort(same), fits},
			{"have the same host port", hostPort(same), hostPort(same), kinds.clash},
			{"have different host ports", hostPort(same), hostPort(another), fits},
		} {
			entries = append(entries, entry(begin+c.sentence, portScenario(podWithPorts("old", kinds.old, c.old), podWithPorts("new", kinds.new, c.new), c.want)))
		}
	}
	return table("A pod and the ports of a node:", entries...)
}()

var _ = table("A pod and the ports of a node's addresses:",
	entry("one of two ports that are used at an address", portScenario(
		podWithPorts("old", container, hostPortAt("127.0.0.1", v1.ProtocolTCP, 8081), hostPortAt("127.0.0.1", v1.ProtocolTCP, 8082)),
		podWithPorts("new", container, hostPortAt("127.0.0.1", v1.ProtocolTCP, 8081)), taken)),
	entry("a third port at that address", portScenario(
		podWithPorts("old", container, hostPortAt("127.0.0.1", v1.ProtocolTCP, 8081), hostPortAt("127.0.0.1", v1.ProtocolTCP, 8082)),
		podWithPorts("new", container, hostPortAt("127.0.0.1", v1.ProtocolTCP, 8080)), fits)),
	entry("the same port at another address", portScenario(
		podWithPorts("old", container, hostPortAt("127.0.0.1", v1.ProtocolTCP, 80)),
		podWithPorts("new", container, hostPortAt("127.0.0.2", v1.ProtocolTCP, 80)), fits)),
	entry("the same port at all addresses", portScenario(
		podWithPorts("old", container, hostPortAt("127.0.0.1", v1.ProtocolTCP, 80)),
		podWithPorts("new", container, hostPortAt("0.0.0.0", v1.ProtocolTCP, 80)), taken)),
	entry("the same port at one address when it is used at all", portScenario(
		podWithPorts("old", container, hostPortAt("", v1.ProtocolTCP, 80)),
		podWithPorts("new", container, hostPortAt("127.0.0.1", v1.ProtocolTCP, 80)), taken)),
	entry("the same port with another protocol", portScenario(
		podWithPorts("old", container, hostPortAt("127.0.0.1", v1.ProtocolTCP, 80)),
		podWithPorts("new", container, hostPortAt("127.0.0.1", v1.ProtocolUDP, 80)), fits)),
)

// tolerating returns a pod with a toleration for each pair of key and value.
func tolerating(pairs ...string) *fixture.PodBuilder {
	pod := fixture.Pod("new")
	for i := 0; i < len(pairs); i += 2 {
		pod.Tolerate(pairs[i], pairs[i+1], v1.TaintEffectNoSchedule)
	}
	return pod
}

// taintedNode returns a node with a taint for each pair of key and value.
func taintedNode(pairs ...string) *fixture.NodeBuilder {
	node := fixture.Node("a")
	for i := 0; i < len(pairs); i += 2 {
		node.Taint(pairs[i], pairs[i+1], v1.TaintEffectNoSchedule)
	}
	return node
}

var _ = table("A pod and the taints of a node:",
	entry("it tolerates the taint", scenario{
		nodes: nodes(taintedNode("team", "red")), pod: tolerating("team", "red"), want: boundTo("a"),
	}),
	entry("it does not tolerate the taint", scenario{
		nodes: nodes(taintedNode("team", "red")), pod: tolerating(), want: unschedulable("1 " + untoleratedTaint),
	}),
	entry("it tolerates another value of the taint", scenario{
		nodes: nodes(taintedNode("team", "red")), pod: tolerating("team", "blue"), want: unschedulable("1 " + untoleratedTaint),
	}),
	entry("it tolerates one of two taints", scenario{
		nodes: nodes(taintedNode("team", "red", "disk", "slow")), pod: tolerating("team", "red"), want: unschedulable("1 " + untoleratedTaint),
	}),
	entry("it tolerates both taints", scenario{
		nodes: nodes(taintedNode("team", "red", "disk", "slow")), pod: tolerating("team", "red", "disk", "slow"), want: boundTo("a"),
	}),
	entry("it has more tolerations than there are taints", scenario{
		nodes: nodes(taintedNode("team", "red")), pod: tolerating("team", "red", "disk", "slow"), want: boundTo("a"),
	}),
	entry("it tolerates a taint that the node does not have", scenario{
		nodes: nodes(taintedNode()), pod: tolerating("team", "red"), want: boundTo("a"),
	}),
	entry("a taint with PreferNoSchedule rejects no pod", scenario{
		nodes: nodes(fixture.Node("a").Taint("team", "red", v1.TaintEffectPreferNoSchedule)), pod: tolerating(), want: boundTo("a"),
	}),
	entry("a taint with NoExecute rejects the pod", scenario{
		nodes: nodes(fixture.Node("a").Taint("team", "red", v1.TaintEffectNoExecute)), pod: tolerating(), want: unschedulable("1 " + untoleratedTaint),
	}),
)

// podComparing returns a pod with a toleration by comparison.
func podComparing(key string, operator v1.TolerationOperator, value string, effect v1.TaintEffect) *fixture.PodBuilder {
	return withComparison(fixture.Pod("new"), key, operator, value, effect)
}

const (
	gt = v1.TolerationOpGt
	lt = v1.TolerationOpLt
)

// The feature gate TaintTolerationComparisonOperators is alpha and off in kube-scheduler by
// default: these operators tolerate nothing, although this API server accepts them.
var _ = table("A toleration by comparison tolerates nothing:",
	entry("Gt, and the value is greater", scenario{
		nodes: nodes(taintedNode("level", "999")), pod: podComparing("level", gt, "900", v1.TaintEffectNoSchedule), want: unschedulable("1 " + untoleratedTaint),
	}),
	entry("Gt, and the value is less", scenario{
		nodes: nodes(taintedNode("level", "850")), pod: podComparing("level", gt, "900", v1.TaintEffectNoSchedule), want: unschedulable("1 " + untoleratedTaint),
	}),
	entry("Lt, and the value is less", scenario{
		nodes: nodes(taintedNode("errors", "5")), pod: podComparing("errors", lt, "10", v1.TaintEffectNoSchedule), want: unschedulable("1 " + untoleratedTaint),
	}),
	entry("Lt, and the value is greater", scenario{
		nodes: nodes(taintedNode("errors", "15")), pod: podComparing("errors", lt, "10", v1.TaintEffectNoSchedule), want: unschedulable("1 " + untoleratedTaint),
	}),
	entry("beside a toleration of another taint", scenario{
		nodes: nodes(taintedNode("level", "950", "disk", "slow")),
		pod:   tolerating("disk", "slow").Toleration(v1.Toleration{Key: "level", Operator: gt, Value: "900", Effect: v1.TaintEffectNoSchedule}),
		want:  unschedulable("1 " + untoleratedTaint),
	}),
	entry("beside a toleration of the same taint, which counts", scenario{
		nodes: nodes(taintedNode("level", "950")),
		pod:   tolerating("level", "950").Toleration(v1.Toleration{Key: "level", Operator: lt, Value: "900", Effect: v1.TaintEffectNoSchedule}),
		want:  boundTo("a"),
	}),
	entry("Gt of a negative number", scenario{
		nodes: nodes(taintedNode("celsius", "10")), pod: podComparing("celsius", gt, "-20", v1.TaintEffectNoSchedule), want: unschedulable("1 " + untoleratedTaint),
	}),
	entry("Lt, and the value is zero", scenario{
		nodes: nodes(taintedNode("delay", "0")), pod: podComparing("delay", lt, "5", v1.TaintEffectNoSchedule), want: unschedulable("1 " + untoleratedTaint),
	}),
	entry("Lt of large numbers", scenario{
		nodes: nodes(taintedNode("bytes", "999999999")), pod: podComparing("bytes", lt, "1000000000", v1.TaintEffectNoSchedule), want: unschedulable("1 " + untoleratedTaint),
	}),
	entry("of any effect, where the taint has PreferNoSchedule and rejects no pod", scenario{
		nodes: nodes(fixture.Node("a").Taint("level", "999", v1.TaintEffectPreferNoSchedule)),
		pod:   podComparing("level", gt, "900", ""), want: boundTo("a"),
	}),
	entry("before and after the value of the taint changes, which requeues the pod", scenario{
		nodes: nodes(taintedNode("level", "850")), pod: podComparing("level", gt, "900", v1.TaintEffectNoSchedule), want: unschedulable("1 " + untoleratedTaint),
		steps: []step{
			updateNode("a", func(n *v1.Node) { n.Spec.Taints[0].Value = "950" }),
			addPod(fixture.Pod("exact").Tolerate("level", "950", v1.TaintEffectNoSchedule), boundTo("a")),
			expectPod("new", unschedulable("1 "+untoleratedTaint)),
		},
	}),
)
