package simulation

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// view is what the scheduler was told by a certain moment: nodes, and pods
// that others placed.
type view struct {
	nodes   map[string]*v1.Node
	foreign map[types.UID]*v1.Pod
}

// known is what the handlers were told up to now.
func (w *world) known() view {
	known := view{nodes: map[string]*v1.Node{}, foreign: map[types.UID]*v1.Pod{}}
	for name, o := range w.nodes().told {
		known.nodes[name] = o.(*v1.Node)
	}
	for _, o := range w.pods().told {
		pod := o.(*v1.Pod)
		if pod.Spec.NodeName != "" && !w.oursOn(pod) {
			known.foreign[pod.UID] = pod
		}
	}
	return known
}

// oursOn says whether a pod is on its node because we put it there.
func (w *world) oursOn(pod *v1.Pod) bool {
	_, ok := w.decisionFor(pod)
	return ok
}

// decided is one Reserve: the decision to put a pod on a node.
type decided struct {
	number int
	node   string
	mark   int
	// pod and room are the pod and the node as they were known then, foreign
	// what others had there.
	pod     *v1.Pod
	room    *v1.Node
	foreign []types.UID
	// undone says that the claims of it were taken back: it must not come true.
	undone bool
}

func (w *world) decide(pod *v1.Pod, node string, mark int) {
	known := w.tasks.current.view
	room := known.nodes[node]
	if room == nil {
		w.fail("%s was decided for %s, which is not known", describe(pod), node)
		return
	}
	w.made++
	d := decided{number: w.made, node: node, mark: mark, pod: pod, room: room}
	for uid, other := range known.foreign {
		if other.Spec.NodeName == node {
			d.foreign = append(d.foreign, uid)
		}
	}
	if wish := w.wishes[mark]; !wish.withoutProbe && pod.Labels[holdLabel] != "" {
		w.fail("%s was decided by mark %d, which holds it", describe(pod), mark)
	} else if !wish.admits(room) {
		w.fail("%s was decided for %s by mark %d, which does not admit it", describe(pod), node, mark)
	}
	if why := unfit(pod, room); why != "" {
		w.fail("%s was decided for %s: %s", describe(pod), node, why)
	}
	w.decisions[pod.UID] = append(w.decisions[pod.UID], d)
	w.binds[pod.UID] = 0
	w.say("decision %d: %s goes to %s", w.steps, describe(pod), node)
}

// undo notes that the pod's last decision does not count any more.
func (w *world) undo(pod *v1.Pod, node string) {
	if live := w.server.pods[keyOf(pod)]; live != nil && live.UID == pod.UID && live.Spec.NodeName == node && w.oursOn(live) {
		w.fail("%s is bound, and its claims on %s are taken back", describe(live), node)
	}
	made := w.decisions[pod.UID]
	made[len(made)-1].undone = true
}

// decisionFor returns the newest decision that put a pod where it is, unless
// somebody else did.
func (w *world) decisionFor(pod *v1.Pod) (decided, bool) {
	if w.theirs[pod.UID] {
		return decided{}, false
	}
	for _, d := range slices.Backward(w.decisions[pod.UID]) {
		if d.node == pod.Spec.NodeName {
			return d, true
		}
	}
	return decided{}, false
}

// unfit says why a node is not for a pod, whatever else is on the node.
func unfit(pod *v1.Pod, node *v1.Node) string {
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

// crowded says why pods cannot be on a node together.
func crowded(node *v1.Node, pods []*v1.Pod) string {
	var cpu int64
	for _, pod := range pods {
		cpu += cpuOf(pod).MilliValue()
	}
	if room := node.Status.Allocatable.Cpu().MilliValue(); cpu > room {
		return fmt.Sprintf("%dm cpu of %dm are taken", cpu, room)
	}
	if room := node.Status.Allocatable.Pods().Value(); int64(len(pods)) > room {
		return fmt.Sprintf("%d pods of %d are there", len(pods), room)
	}
	return ""
}

// clash says which of a pod's ports another one has.
func clash(pod *v1.Pod, others []*v1.Pod) string {
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

// on lists the pods that the server holds as running on a node.
func (w *world) on(node string) []*v1.Pod {
	var found []*v1.Pod
	for _, key := range slices.Sorted(maps.Keys(w.server.pods)) {
		if pod := w.server.pods[key]; pod.Spec.NodeName == node && isLivePod(pod) {
			found = append(found, pod)
		}
	}
	return found
}

// promised is the node where a pod has room promised: what its status says, or
// what is only known in memory because it may not be written.
func (w *world) promised(pod *v1.Pod) string {
	if w.untold[pod.UID] {
		return w.sched.Components().Cache.NominatedNode(pod.UID)
	}
	return pod.Status.NominatedNodeName
}

// fits says whether a waiting pod would find room now: on the node as it is,
// beside all that is there and all that room was promised to.
func (w *world) fits(pod *v1.Pod, p *profile) (node string, ok bool) {
	for _, n := range w.server.sortedNodes() {
		if !p.runs.admits(n) || unfit(pod, n) != "" {
			continue
		}
		there := append(w.on(n.Name), pod)
		for _, other := range w.server.sortedPods() {
			if isPending(other) && other.UID != pod.UID && w.promised(other) == n.Name {
				there = append(there, other)
			}
		}
		if crowded(n, there) == "" && clash(pod, there) == "" {
			return n.Name, true
		}
	}
	return "", false
}
