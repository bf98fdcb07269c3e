package simulation

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// knownState is what the scheduler's handlers had received at some moment: the nodes, and the
// pods that others bound. It is immutable.
type knownState struct {
	nodes  map[string]*v1.Node
	others map[types.UID]*v1.Pod
}

// known returns what the handlers have received until now.
func (sim *simulation) known() knownState {
	if sim.knownNow != nil {
		return *sim.knownNow
	}
	known := knownState{nodes: map[string]*v1.Node{}, others: map[types.UID]*v1.Pod{}}
	for name, o := range sim.nodeInformer().handled {
		known.nodes[name] = o.(*v1.Node)
	}
	for _, o := range sim.podInformer().handled {
		pod := o.(*v1.Pod)
		if pod.Spec.NodeName != "" && !sim.placedByUs(pod) {
			known.others[pod.UID] = pod
		}
	}
	sim.knownNow = &known
	return known
}

// forgetKnown is called when a handler receives another state of an object, or none any more,
// and when a pod was placed. Most pods on nodes are ours and change nothing.
func (sim *simulation) forgetKnown(o object) {
	if sim.knownNow == nil {
		return
	}
	pod, is := o.(*v1.Pod)
	if !is || sim.knownNow.others[pod.UID] != nil || pod.Spec.NodeName != "" && !sim.placedByUs(pod) {
		sim.knownNow = nil
	}
}

// placedByUs says whether a pod is on its node because we placed it there.
func (sim *simulation) placedByUs(pod *v1.Pod) bool {
	_, ok := sim.placementOf(pod)
	return ok
}

// placement is one Reserve: a pod is to go to a node.
type placement struct {
	number int
	node   string
	spec   int
	// pod and knownNode are the objects as they were known then; others are the pods of others
	// on the node that were known then.
	pod       *v1.Pod
	knownNode *v1.Node
	others    []types.UID
	// undone says that Unreserve was called: no Binding of it may be committed any more.
	undone bool
	// cycle is the number of the attempt in the loop; 0 for one outside it.
	cycle int
	// process made the placement. deposed says that a later leader had placed a pod by then: no
	// Binding of the placement can be committed.
	process int
	deposed bool
}

func (sim *simulation) recordPlacement(pod *v1.Pod, node string, number int) {
	known := sim.tasks.current.known
	knownNode := known.nodes[node]
	if knownNode == nil {
		sim.failf("%s was placed on %s, a node that is not known", describe(pod), node)
		return
	}
	sim.placementCount++
	d := placement{number: sim.placementCount, node: node, spec: number, pod: pod, knownNode: knownNode, cycle: sim.tasks.current.cycle, process: sim.process}
	sim.noteDecision(&d)
	for uid, other := range known.others {
		if other.Spec.NodeName == node {
			d.others = append(d.others, uid)
		}
	}
	if spec := sim.specs[number]; !spec.withoutProbe && pod.Labels[holdLabel] != "" {
		sim.failf("%s was placed by spec %d, whose PreEnqueue refuses it", describe(pod), number)
	} else if !spec.admits(knownNode) {
		sim.failf("%s was placed on %s by spec %d, whose Filter refuses the node", describe(pod), node, number)
	}
	if why := nodeMismatch(pod, knownNode); why != "" {
		sim.failf("%s was placed on %s, but %s", describe(pod), node, why)
	}
	sim.placements[pod.UID] = append(sim.placements[pod.UID], d)
	sim.forgetKnown(pod)
	if !d.deposed {
		sim.bindingsSent[pod.UID] = 0
	}
	sim.notePlacedClaims(pod, node)
	sim.notePlacedDeviceClaims(pod)
	sim.noteBegun(pod, number)
	sim.logf("placement %d: %s on %s", sim.steps, describe(pod), node)
}

// recordUndo notes that the pod's last placement was undone.
func (sim *simulation) recordUndo(pod *v1.Pod, node string) {
	if live := sim.server.pods[keyOf(pod)]; !sim.isDeposed() && live != nil && live.UID == pod.UID && live.Spec.NodeName == node && sim.boundByProcess(live) {
		sim.failf("%s is bound to %s, and Unreserve is called for it", describe(live), node)
	}
	made := sim.placements[pod.UID]
	for i, d := range slices.Backward(made) {
		if d.process == sim.process {
			made[i].undone = true
			break
		}
	}
	sim.noteUndone(pod)
}

// boundByProcess says whether a pod is on its node because we placed it there; in a history of
// replicas, because this process did. Another leader may have bound a pod to the same node before,
// which has ended since: a handler that has not received that yet may let it be tried again.
func (sim *simulation) boundByProcess(pod *v1.Pod) bool {
	if sim.hasReplicas() && sim.boundBy[pod.UID] != sim.process {
		return false
	}
	return sim.placedByUs(pod)
}

// placementOf returns the newest placement of a pod on its node; ok is false where another
// component bound it.
func (sim *simulation) placementOf(pod *v1.Pod) (placement, bool) {
	if sim.boundElsewhere[pod.UID] {
		return placement{}, false
	}
	for _, d := range slices.Backward(sim.placements[pod.UID]) {
		if d.node == pod.Spec.NodeName && !d.deposed {
			return d, true
		}
	}
	return placement{}, false
}

// nodeMismatch says why a node is not feasible for a pod, whatever other pods are there.
func nodeMismatch(pod *v1.Pod, node *v1.Node) string {
	for _, taint := range node.Spec.Taints {
		if !tolerates(pod, taint.Key) {
			return "it is tainted"
		}
	}
	if node.Spec.Unschedulable {
		return "it is cordoned"
	}
	for key, value := range pod.Spec.NodeSelector {
		if node.Labels[key] != value {
			return "it lacks a label"
		}
	}
	return ""
}

func tolerates(pod *v1.Pod, key string) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t v1.Toleration) bool { return t.Key == key })
}

// overcommitted says which resource of a node the pods exceed.
func overcommitted(node *v1.Node, pods []*v1.Pod) string {
	var cpu int64
	for _, pod := range pods {
		cpu += cpuOf(pod).MilliValue()
	}
	if capacity := node.Status.Allocatable.Cpu().MilliValue(); cpu > capacity {
		return fmt.Sprintf("%dm cpu of %dm are requested", cpu, capacity)
	}
	if capacity := node.Status.Allocatable.Pods().Value(); int64(len(pods)) > capacity {
		return fmt.Sprintf("it has %d pods of %d", len(pods), capacity)
	}
	return ""
}

// portConflict names a host port of a pod that another one uses.
func portConflict(pod *v1.Pod, others []*v1.Pod) string {
	for _, other := range others {
		for port := range ports(other) {
			if ports(pod)[port] && other.UID != pod.UID {
				return fmt.Sprintf("port %d is taken by %s", port, describe(other))
			}
		}
	}
	return ""
}

func ports(pod *v1.Pod) map[int32]bool {
	found := map[int32]bool{}
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			found[p.HostPort] = true
		}
	}
	return found
}

// podsOn returns the pods on a node, as the server has them. The caller owns the slice.
func (sim *simulation) podsOn(node string) []*v1.Pod {
	return slices.Clone(sim.server.podsByNode[node])
}

// nominated returns the pending pods that are nominated for each node, in the order of their
// keys.
func (sim *simulation) nominated() map[string][]*v1.Pod {
	found := map[string][]*v1.Pod{}
	for _, pod := range sim.server.sorted {
		if node := sim.nominatedNode(pod); node != "" && isPending(pod) {
			found[node] = append(found[node], pod)
		}
	}
	return found
}

// nominatedNode is the node for which a pod is nominated: what its status says, or, where that
// may not be written, what the cache holds.
func (sim *simulation) nominatedNode(pod *v1.Pod) string {
	if sim.unwritable[pod.UID] {
		return sim.sched.Components().Cache.NominatedNode(pod.UID)
	}
	return pod.Status.NominatedNodeName
}

// feasibleNode returns a node on which a pending pod would fit now, beside the pods on it and
// those nominated for it.
func (sim *simulation) feasibleNode(pod *v1.Pod, p *profile) (node string, ok bool) {
	nominated := sim.nominated()
	for _, n := range sim.server.sortedNodes() {
		if !p.running.admits(n) || nodeMismatch(pod, n) != "" {
			continue
		}
		there := append(sim.podsOn(n.Name), pod)
		for _, other := range nominated[n.Name] {
			if other.UID != pod.UID {
				there = append(there, other)
			}
		}
		if overcommitted(n, there) == "" && portConflict(pod, there) == "" && sim.volumesRefuse(pod, n, there) == "" && sim.devicesRefuse(pod, n) == "" {
			return n.Name, true
		}
	}
	return "", false
}
