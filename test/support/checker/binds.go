package checker

import (
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/test/support/history"
)

// lookBack is how long before a bind a node is taken to be known where the bind does not say
// which version was.
const lookBack = 10 * time.Second

// replay is the state of pods and nodes at a revision.
type replay struct {
	*timeline
	*results
	nodes   map[string]*corev1.Node
	onNode  map[string]map[types.UID]*corev1.Pod
	boundTo map[types.UID]string // the node of each pod, deleted ones included
	// foreign are the revisions at which pods got their node that Berth did not bind.
	foreign map[types.UID]int64
	epoch   int64
	byEpoch map[int64]int
	binds   int
	// mostPods is the largest number of pods that a node ever had, of capacity pods.
	mostPods, capacity int64
}

// replayBinds checks each bind at its revision.
func (r *results) replayBinds(t *timeline) {
	at := &replay{
		timeline: t, results: r, nodes: map[string]*corev1.Node{}, onNode: map[string]map[types.UID]*corev1.Pod{},
		boundTo: map[types.UID]string{}, foreign: map[types.UID]int64{}, byEpoch: map[int64]int{},
	}
	for i := range t.History.Changes {
		change := &t.History.Changes[i]
		switch o := change.Object.(type) {
		case *corev1.Node:
			if change.Deleted {
				delete(at.nodes, o.Name)
			} else {
				at.nodes[o.Name] = o
			}
		case *corev1.Pod:
			at.pod(change, o)
		case *coordinationv1.Lease:
			if change.Deleted && o.Name == t.Options.Lease && o.Namespace == t.Options.Namespace {
				at.epoch = 0 // the epochs begin again with the next Lease
			}
		}
	}
	r.Facts = append(r.Facts, fmt.Sprintf("%d versions: %d pods, %d binds by %d leaders; the fullest node had %d pods of %d",
		len(t.History.Changes), len(t.pods), at.binds, len(at.byEpoch), at.mostPods, at.capacity))
	r.Binds, r.ByEpoch, r.MostPods = at.binds, at.byEpoch, at.mostPods
}

// pod applies a version of a pod.
func (r *replay) pod(change *history.Change, pod *corev1.Pod) {
	was, known := r.boundTo[pod.UID]
	if r.onNode[pod.Spec.NodeName] == nil {
		r.onNode[pod.Spec.NodeName] = map[types.UID]*corev1.Pod{}
	}
	delete(r.onNode[was], pod.UID)
	node := pod.Spec.NodeName
	r.boundTo[pod.UID] = node
	created := !known && node != "" || change.Listed
	switch {
	case was != "" && node != was:
		r.fail(I1, change.Revision, keyOf(pod).String(), "it was on %s and is on %q", was, node)
	case was != "" || node == "" || change.Deleted:
	case created || !r.ours(pod):
		r.foreign[pod.UID] = change.Revision
	default:
		r.bind(change, pod)
	}
	if !change.Deleted && usesResources(pod) {
		r.onNode[node][pod.UID] = pod
	}
}

// bind checks a bind at its version. The pod itself is not on the node yet.
func (r *replay) bind(change *history.Change, pod *corev1.Pod) {
	r.binds++
	r.checked(I1)
	name := keyOf(pod).String()
	d, known := r.checkDecision(change, pod)
	if known {
		r.checkEpoch(change, name, d)
	}
	enabled := r.pluginsOf(d)
	if why := r.misfitsAll(change, pod, d, enabled); why != "" {
		r.fail(I1, change.Revision, name, "it was bound to %s, and does not fit there: %s", pod.Spec.NodeName, why)
	}
	if why := r.unpreparedVolumes(change, pod, enabled); why != "" {
		r.fail(I1, change.Revision, name, "it was bound to %s: %s", pod.Spec.NodeName, why)
	}
	if why := r.unpreparedDevices(change, pod, enabled); why != "" {
		r.fail(I1, change.Revision, name, "it was bound to %s: %s", pod.Spec.NodeName, why)
	}
	if pods := int64(len(r.onNode[pod.Spec.NodeName]) + 1); pods > r.mostPods {
		r.mostPods = pods
		if node := r.nodes[pod.Spec.NodeName]; node != nil {
			r.capacity = node.Status.Allocatable.Pods().Value()
		}
	}
}

// misfitsAll returns why a pod fits on no version of its node that the decision may have known:
// the versions since the one that it names. Pods that others placed after the decision do not
// count, since nobody could know them.
func (r *replay) misfitsAll(change *history.Change, pod *corev1.Pod, d decision, enabled pluginSet) string {
	node := key{"Node", "", pod.Spec.NodeName}
	from := d.Walk.Nodes
	if from == 0 {
		from = r.revisionBefore(change, lookBack)
	}
	versions := r.between(node, from, change.Revision)
	if len(versions) == 0 {
		return "the node did not exist"
	}
	others := r.countedPods(pod, d)
	var first string
	for _, version := range versions {
		at := version.Object.(*corev1.Node)
		why := misfit(pod, at, others, enabled)
		if why == "" && enabled.has(pluginPodAffinity) {
			why = repelled(pod, at, r.placedThen(d, change))
		}
		if why == "" {
			return ""
		}
		if first == "" {
			first = why
		}
	}
	return first
}

// countedPods returns the pods of the node that a bind must have counted.
func (r *replay) countedPods(pod *corev1.Pod, d decision) (pods []*corev1.Pod) {
	for uid, other := range r.onNode[pod.Spec.NodeName] {
		if !r.isLate(uid, d) {
			pods = append(pods, other)
		}
	}
	return pods
}

// isLate reports whether another component placed a pod after a decision.
func (r *replay) isLate(uid types.UID, d decision) bool {
	placed, foreign := r.foreign[uid]
	return foreign && d.Walk.Pods > 0 && placed > d.Walk.Pods
}

// placedThen returns the pods with nodes that both the decision and the bind knew.
func (r *replay) placedThen(d decision, change *history.Change) placed {
	p := placed{nodes: r.nodes}
	for _, pods := range r.onNode {
		for uid, other := range pods {
			if !r.isLate(uid, d) && !labelsChanged(r.timeline, other, d.Walk.Pods, change.Revision) {
				p.pods = append(p.pods, other)
			}
		}
	}
	return p
}

// labelsChanged reports whether the labels of a pod were changed between two revisions.
func labelsChanged(t *timeline, pod *corev1.Pod, from, to int64) bool {
	versions := t.between(keyOf(pod), from, to)
	return slices.ContainsFunc(versions, func(v *history.Change) bool {
		return fmt.Sprint(v.Object.GetLabels()) != fmt.Sprint(pod.Labels)
	})
}

// revisionBefore is the revision that was the newest this long before a change.
func (r *replay) revisionBefore(change *history.Change, ago time.Duration) int64 {
	revision := int64(1)
	for i := range r.History.Changes {
		c := &r.History.Changes[i]
		if c.Revision >= change.Revision || c.Seen.After(change.Seen.Add(-ago)) {
			break
		}
		revision = c.Revision
	}
	return revision
}

// checkEpoch checks that no later leader has bound before, or has fenced all pods.
func (r *replay) checkEpoch(change *history.Change, name string, d decision) {
	r.checked(I7)
	if d.Epoch < r.epoch {
		r.fail(I7, change.Revision, name, "it was bound by leader epoch %d, after epoch %d had bound", d.Epoch, r.epoch)
	}
	r.epoch = max(r.epoch, d.Epoch)
	r.byEpoch[d.Epoch]++
	lease := r.at(key{"Lease", r.Options.Namespace, r.Options.Lease}, change.Revision)
	if lease == nil {
		return
	}
	transitions := lease.Object.(*coordinationv1.Lease).Spec.LeaseTransitions
	if transitions != nil && d.Epoch > int64(*transitions) {
		r.fail(I7, change.Revision, name, "it was bound by leader epoch %d, and the Lease has had %d transitions", d.Epoch, *transitions)
	}
	// A Binding names the version of the pod that its sender knew, which the API server compares.
	knew := max(d.Walk.Nodes, d.Walk.Pods)
	if before := r.at(keyOf(change.Object), change.Revision-1); before != nil {
		knew = max(knew, before.Revision)
	}
	if began := r.successorBegan(change, d.Epoch); began > 0 && knew > began {
		r.fail(I7, change.Revision, name, "it was bound by leader epoch %d, which knew revision %d, and its successor had the Lease at %d", d.Epoch, knew, began)
	}
	if j := r.journalAt(change.Revision); j != nil && j.fence == "done" && j.epoch > d.Epoch {
		r.fail(I7, change.Revision, name, "it was bound by leader epoch %d, after epoch %d had fenced the pods of earlier leaders", d.Epoch, j.epoch)
	}
}

// successorBegan returns the revision at which a later leader than the one of an epoch had the
// Lease; 0 where there was none before a change. A leader that decides after that does not know
// that it leads no more, or says another epoch than its own.
func (r *replay) successorBegan(change *history.Change, epoch int64) (began int64) {
	for _, v := range r.versions[key{"Lease", r.Options.Namespace, r.Options.Lease}] {
		lease := v.Object.(*coordinationv1.Lease)
		switch {
		case v.Revision > change.Revision:
			return began
		case v.Deleted:
			began = 0 // the epochs begin again
		case began == 0 && lease.Spec.LeaseTransitions != nil && int64(*lease.Spec.LeaseTransitions) > epoch:
			began = v.Revision
		}
	}
	return began
}
