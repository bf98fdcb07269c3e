package checker

import (
	"cmp"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
)

const (
	// waitsEvery is the time between two moments at which waiting pods are looked at, and
	// mostWaiting how many of them are.
	waitsEvery  = time.Second
	mostWaiting = 100
)

// waits follows pods that wait although they fit.
type waits struct {
	*timeline
	*results
	nodes   map[string]*corev1.Node
	onNode  map[string]map[types.UID]*corev1.Pod
	pending map[types.UID]*corev1.Pod
	lease   *coordinationv1.Lease
	// fitSince is since when each waiting pod fits, without that a pod of the same or a higher
	// priority was bound.
	fitSince map[types.UID]time.Time
	reported map[types.UID]bool
	last     time.Time
}

// checkWaits checks that no pod waits for longer than Options.LongestWait although it fits on a
// node, a leader holds the Lease, and no pod of the same or a higher priority is bound meanwhile.
// It judges pods without volumes, devices, required spread or affinity to pods, that are alone.
func (r *results) checkWaits(t *timeline) {
	w := &waits{
		timeline: t, results: r, nodes: map[string]*corev1.Node{}, onNode: map[string]map[types.UID]*corev1.Pod{},
		pending: map[types.UID]*corev1.Pod{}, fitSince: map[types.UID]time.Time{}, reported: map[types.UID]bool{},
	}
	for i := range t.History.Changes {
		change := &t.History.Changes[i]
		w.look(change.Seen, change.Revision)
		switch o := change.Object.(type) {
		case *corev1.Node:
			w.nodes[o.Name] = o
			if change.Deleted {
				delete(w.nodes, o.Name)
			}
		case *corev1.Pod:
			w.pod(o, change.Deleted)
		case *coordinationv1.Lease:
			if o.Name == t.Options.Lease && o.Namespace == t.Options.Namespace {
				w.leaseChanged(o, change.Deleted)
			}
		}
	}
	w.look(t.Now, t.History.Last)
}

func (w *waits) pod(pod *corev1.Pod, deleted bool) {
	before := w.pending[pod.UID]
	delete(w.pending, pod.UID)
	delete(w.onNode[pod.Spec.NodeName], pod.UID)
	switch {
	case deleted || pod.DeletionTimestamp != nil && pod.Spec.NodeName == "":
	case pod.Spec.NodeName == "":
		if w.ours(pod) && isSimple(pod) {
			w.pending[pod.UID] = pod
			return
		}
	default:
		if usesResources(pod) {
			if w.onNode[pod.Spec.NodeName] == nil {
				w.onNode[pod.Spec.NodeName] = map[types.UID]*corev1.Pod{}
			}
			w.onNode[pod.Spec.NodeName][pod.UID] = pod
		}
		if before != nil {
			w.reset(func(other *corev1.Pod) bool { return priority(other) <= priority(pod) })
		}
	}
	delete(w.fitSince, pod.UID)
}

// leaseChanged notes the Lease. Another holder may need time before it schedules.
func (w *waits) leaseChanged(lease *coordinationv1.Lease, deleted bool) {
	if deleted || w.lease == nil || holder(w.lease) != holder(lease) || !renewed(lease, w.lease) {
		w.reset(func(*corev1.Pod) bool { return true })
	}
	w.lease = lease
	if deleted {
		w.lease = nil
	}
}

func holder(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// renewed reports whether a Lease was renewed before its last version ended.
func renewed(lease, last *coordinationv1.Lease) bool {
	if lease.Spec.RenewTime == nil || last.Spec.RenewTime == nil || last.Spec.LeaseDurationSeconds == nil {
		return false
	}
	return lease.Spec.RenewTime.Sub(last.Spec.RenewTime.Time) < time.Duration(*last.Spec.LeaseDurationSeconds)*time.Second
}

// reset ends the waits of some pods.
func (w *waits) reset(of func(*corev1.Pod) bool) {
	for uid := range w.fitSince {
		if pod := w.pending[uid]; pod == nil || of(pod) {
			delete(w.fitSince, uid)
		}
	}
}

// look looks at the waiting pods, at most every waitsEvery.
func (w *waits) look(now time.Time, revision int64) {
	if now.Sub(w.last) < waitsEvery {
		return
	}
	w.last = now
	if w.lease == nil || holder(w.lease) == "" || !w.leads(now) {
		clear(w.fitSince)
		return
	}
	before := w.fitSince
	w.fitSince = map[types.UID]time.Time{} // those that are not looked at begin anew
	for _, uid := range w.oldest() {
		pod, node := w.pending[uid], ""
		if w.mayRun(pod, revision) {
			node = w.fitsOn(pod, revision)
		}
		if node == "" {
			continue
		}
		w.checked(I2)
		w.fitSince[uid] = before[uid]
		if before[uid].IsZero() {
			w.fitSince[uid] = now
		}
		if waited := now.Sub(w.fitSince[uid]); waited > w.Options.LongestWait && !w.reported[uid] {
			w.reported[uid] = true
			w.fail(I2, revision, keyOf(pod).String(), "it has waited for %s although it fits on %s", waited.Round(time.Second), node)
		}
	}
}

// oldest returns the pods that have waited longest, at most mostWaiting.
func (w *waits) oldest() []types.UID {
	all := slices.SortedFunc(maps.Keys(w.pending), func(a, b types.UID) int {
		return cmp.Or(w.pending[a].CreationTimestamp.Compare(w.pending[b].CreationTimestamp.Time), cmp.Compare(a, b))
	})
	return all[:min(len(all), mostWaiting)]
}

// leads reports whether the Lease has not ended.
func (w *waits) leads(now time.Time) bool {
	s := w.lease.Spec
	return s.RenewTime != nil && s.LeaseDurationSeconds != nil && now.Sub(s.RenewTime.Time) < time.Duration(*s.LeaseDurationSeconds)*time.Second
}

// mayRun reports whether the profile of a pod runs and does not hold it.
func (w *waits) mayRun(pod *corev1.Pod, revision int64) bool {
	version := w.at(key{"SchedulingProfile", "", pod.Spec.SchedulerName}, revision)
	if version == nil {
		return false
	}
	p := version.Object.(*v1alpha1.SchedulingProfile)
	return p.Status.Programmed != nil && p.Spec.State != v1alpha1.StatePaused && !isHeld(pod)
}

// fitsOn returns a node on which a pod fits, counting pods that are nominated for it.
func (w *waits) fitsOn(pod *corev1.Pod, revision int64) string {
	enabled := w.programmedPlugins(pod.Spec.SchedulerName, revision)
	for _, node := range w.nodes {
		var others []*corev1.Pod
		for _, other := range w.onNode[node.Name] {
			others = append(others, other)
		}
		for _, other := range w.pending {
			if other.UID != pod.UID && other.Status.NominatedNodeName == node.Name {
				others = append(others, other)
			}
		}
		if misfit(pod, node, others, enabled) == "" {
			return node.Name
		}
	}
	return ""
}

// programmedPlugins returns the plugins of what runs of a profile at a revision.
func (t *timeline) programmedPlugins(profile string, revision int64) pluginSet {
	version := t.at(key{"SchedulingProfile", "", profile}, revision)
	if version == nil || version.Object.(*v1alpha1.SchedulingProfile).Status.Programmed == nil {
		return nil
	}
	return newPluginSet(version.Object.(*v1alpha1.SchedulingProfile).Status.Programmed.Plugins)
}

// isSimple reports whether misfit alone says where a pod fits.
func isSimple(pod *corev1.Pod) bool {
	affinity := pod.Spec.Affinity
	spread := slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
		return c.WhenUnsatisfiable == corev1.DoNotSchedule
	})
	return len(pod.Spec.SchedulingGates) == 0 && len(claimNames(pod)) == 0 && len(pod.Spec.ResourceClaims) == 0 &&
		!spread && (affinity == nil || affinity.PodAffinity == nil && affinity.PodAntiAffinity == nil) && !isGrouped(pod)
}

// isGrouped reports whether a pod may be scheduled together with others.
func isGrouped(pod *corev1.Pod) bool {
	_, annotated := pod.Annotations[v1alpha1.AnnotationPodGroup]
	return annotated || pod.Spec.SchedulingGroup != nil || pod.Labels["scheduling.x-k8s.io/pod-group"] != "" || pod.Labels["kueue.x-k8s.io/pod-group-name"] != ""
}

// heldReasons are the reasons of PodScheduled of pods that are held.
var heldReasons = []string{"ProfileDeleted", "ProfilePaused", "ProfileNotRunning", "NamespaceNotAllowed", "Unsupported", "Quarantined"}

// isHeld reports whether the condition of a pod says that it is held.
func isHeld(pod *corev1.Pod) bool {
	c := scheduledCondition(pod)
	return c != nil && slices.Contains(heldReasons, c.Reason)
}

func priority(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}
