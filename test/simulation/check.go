package simulation

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
)

// checkBind holds each Binding that the server commits to what must be true
// of it: it was decided, it says by whom, and all that we put on the node has
// room there by what was known when the last of it was decided.
func (w *world) checkBind(before, after *v1.Pod) {
	if before.Spec.NodeName != "" {
		w.fail("%s was bound twice", describe(after))
	}
	d, ok := w.decisionFor(after)
	if !ok {
		w.fail("%s was bound, which nobody decided", describe(after))
		return
	}
	if d.undone {
		w.fail("%s was bound by a Binding that was given up", describe(after))
	}
	if !maps.Equal(before.Labels, d.pod.Labels) || len(before.Spec.Tolerations) != len(d.pod.Spec.Tolerations) {
		w.fail("%s was bound and is not what was decided about: %s", describe(after), describe(d.pod))
	}
	w.checkRecord(after, d)
	last := d
	for _, pod := range w.on(d.node) {
		if other, ours := w.decisionFor(pod); ours && other.number > last.number {
			last = other
		}
	}
	if why := crowded(last.room, w.together(last)); why != "" {
		w.fail("%s was bound, but on %s %s", describe(after), d.node, why)
	}
	if why := clash(after, w.together(d)); why != "" {
		w.fail("%s was bound to %s, but %s", describe(after), d.node, why)
	}
}

// together are the pods on a node that a decision for it had to reckon with:
// those that we put there, before it or since, and those of others that were
// known then.
func (w *world) together(d decided) []*v1.Pod {
	return slices.DeleteFunc(w.on(d.node), func(pod *v1.Pod) bool {
		_, ours := w.decisionFor(pod)
		return !ours && !slices.Contains(d.foreign, pod.UID)
	})
}

// checkFailure holds a failed attempt to what may fail it: a conflict says
// nothing before the pod was read, and a pod that is there unchanged is bound
// again.
func (w *world) checkFailure(pod *v1.Pod, note string) {
	if strings.Contains(note, "Operation cannot be fulfilled") && !strings.Contains(note, "was given up") && w.binds[pod.UID] == 1 {
		w.fail("%s failed by the first conflict: %s", describe(pod), note)
	}
}

// checkRecord holds the annotation of a bound pod to the decision.
func (w *world) checkRecord(pod *v1.Pod, d decided) {
	var record struct {
		Profile, Hash, Node string
	}
	if err := json.Unmarshal([]byte(pod.Annotations[v1alpha1.AnnotationDecision]), &record); err != nil {
		w.fail("%s carries no record: %v", describe(pod), err)
		return
	}
	if record.Node != d.node || record.Profile != pod.Spec.SchedulerName || w.markOf[record.Hash] != d.mark {
		w.fail("%s carries the record %+v of mark %d, decided by mark %d", describe(pod), record, w.markOf[record.Hash], d.mark)
	}
}

// checkAlways is what is true at any moment.
func (w *world) checkAlways() {
	if err := w.sched.Components().Queue.Check(); err != nil {
		w.fail("the queue's books: %v", err)
	}
	cache := w.sched.Components().Cache
	for _, pod := range w.server.sortedPods() {
		if node := cache.NominatedNode(pod.UID); node != "" && cache.IsAssigned(pod.UID) {
			w.fail("%s has a node, and room promised on %s besides", describe(pod), node)
		}
	}
}

// checkNominations finds no room promised to a pod that does not wait.
func (w *world) checkNominations() {
	live := map[types.UID]bool{}
	for _, pod := range w.server.pods {
		live[pod.UID] = isPending(pod)
	}
	nominations := w.sched.Components().Cache.Nominator
	for _, node := range w.server.nodes {
		for _, info := range nominations.NominatedPodsForNode(node.Name) {
			pod := info.GetPod()
			if !live[pod.UID] {
				w.fail("%s has room promised on %s and does not wait", describe(pod), node.Name)
			} else if told := w.server.pods[keyOf(pod)].Status.NominatedNodeName; told != node.Name && w.swarm.faults["patch"] == 0 && !w.untold[pod.UID] {
				// What may not be written, or not be read for it, is not tried again.
				w.fail("%s has room promised on %s, and was told %q", describe(pod), node.Name, told)
			}
		}
	}
}

// checkCache holds the cache to the server's truth.
func (w *world) checkCache() {
	snapshot := w.sched.Components().Cache.UpdateSnapshot()
	if snapshot.Len() != len(w.server.nodes) {
		w.fail("the cache has %d nodes, the cluster %d", snapshot.Len(), len(w.server.nodes))
		return
	}
	placed := 0
	for _, pod := range w.server.pods {
		if pod.Spec.NodeName != "" && isLivePod(pod) {
			placed++
		}
	}
	if pods, assumed := w.sched.Components().Cache.Sizes(); pods != placed || assumed > 0 {
		w.fail("the cache holds %d pods, %d of them assumed; the cluster has %d on nodes", pods, assumed, placed)
	}
	for _, node := range w.server.sortedNodes() {
		info := snapshot.Node(node.Name)
		if info == nil || info.Node().ResourceVersion != node.ResourceVersion {
			w.fail("the cache's node %s is not the cluster's", node.Name)
			continue
		}
		there, want := map[types.UID]bool{}, w.on(node.Name)
		for _, pod := range info.GetPods() {
			there[pod.GetPod().UID] = true
		}
		var cpu int64
		for _, pod := range want {
			cpu += cpuOf(pod).MilliValue()
			if !there[pod.UID] {
				w.fail("the cache lacks %s", describe(pod))
			}
		}
		if len(there) != len(want) || info.GetRequested().GetMilliCPU() != cpu {
			w.fail("the cache has %d pods with %dm cpu on %s, the cluster %d with %dm", len(there),
				info.GetRequested().GetMilliCPU(), node.Name, len(want), cpu)
		}
	}
}
