package scheduler

import (
	"cmp"
	"context"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/queue"
)

// waitingPods tells the queue of changes to profiles.
type podQueue struct{ *Scheduler }

// Adopt hands the new rules to the queue and, since the pods of a name that
// nobody served were not kept, looks for them. Of a name that was served the
// queue has them all: a swap costs no look at every pod.
func (w podQueue) SetProfile(ctx context.Context, name string, rules *queue.Rules) {
	if w.queue.Serves(name) {
		if w.queue.SetProfile(ctx, name, rules) {
			w.reexplain(name)
		}
		return
	}
	// All that was promised holds before the first of them is tried, as if they
	// had never been without a scheduler: it might take another's room.
	var promised []*v1.Pod
	for _, pod := range w.unassignedPods(name) {
		if pod.Status.NominatedNodeName != "" && !fault.PromisesAdoptedInTurn {
			w.eventHandlers.AddNomination(pod)
			promised = append(promised, pod)
		}
	}
	w.queue.SetProfile(ctx, name, rules)
	lister := w.options.Informers.Core().V1().Pods().Lister()
	for _, pod := range slices.Concat(promised, w.unassignedPods(name)) {
		w.enqueueListed(ctx, lister, pod)
	}
}

// without returns the pods that name a profile and have no node.
func (w podQueue) unassignedPods(name string) []*v1.Pod {
	pods, err := w.options.Informers.Core().V1().Pods().Lister().List(labels.Everything())
	if err != nil {
		w.options.Log.Error(err, "Cannot look for pods that wait for the profile", "profile", name)
	}
	return slices.DeleteFunc(pods, func(pod *v1.Pod) bool { return pod.Spec.NodeName != "" || pod.Spec.SchedulerName != name })
}

// adopt gives the queue a pod as the informer once listed it. What it tells of
// the pod beside us may come before that: so the store, which moves first, has
// the last word.
func (w podQueue) enqueueListed(ctx context.Context, lister corelisters.PodLister, pod *v1.Pod) {
	w.eventHandlers.AddUnscheduledPod(ctx, pod)
	for !fault.AdoptedUnseen {
		now, err := lister.Pods(pod.Namespace).Get(pod.Name)
		if err != nil || now.UID != pod.UID || now.Spec.NodeName != "" {
			w.eventHandlers.RemoveUnscheduledPod(pod)
			return
		}
		if now == pod {
			return
		}
		// As an update: what the older one says may be over, such as a promise
		// of room.
		if fault.PromiseAdopted {
			w.eventHandlers.AddUnscheduledPod(ctx, now)
		} else {
			w.eventHandlers.UpdateUnscheduledPod(ctx, pod, now)
		}
		pod = now
	}
}

// Reconsider asks whether pods are held that were not, or the other way round.
func (w podQueue) RecheckHolds(ctx context.Context, name, namespace string) {
	w.queue.Reconsider(ctx, name, func(pod *v1.Pod) bool { return namespace == "" || pod.Namespace == namespace })
}

// reconsider asks of every profile's pods about which concerned is true whether they
// are held that were not, or the other way round. It returns when all have been asked
// about. An attempt that has begun goes on: its pod is asked about if it is refused.
func (s *Scheduler) reevaluateHolds(ctx context.Context, concerned func(*v1.Pod) bool) {
	for _, name := range s.profiles.Names() {
		s.queue.Reconsider(ctx, name, concerned)
	}
}

// GateOpened lets the queue ask the pod's gates again.
func (w podQueue) RecheckGates(ctx context.Context, uid types.UID) { w.queue.GateOpened(ctx, uid) }

// Abandon parks the profile's pods.
func (w podQueue) RemoveProfile(_ context.Context, name string, hold queue.Hold) {
	w.queue.RemoveProfile(name, hold)
}

// Withhold holds the pods of a profile that does not run, also those that the queue
// has not kept: nobody served the name.
func (w podQueue) HoldProfile(ctx context.Context, name string, hold queue.Hold) {
	w.queue.HoldProfile(name, hold)
	lister := w.options.Informers.Core().V1().Pods().Lister()
	for _, pod := range w.unassignedPods(name) {
		if !w.queue.Has(pod.UID) {
			w.enqueueListed(ctx, lister, pod)
		}
	}
}

// tellHeld tells the pods that are held when s begins to lead.
func (s *Scheduler) reportHeldPods() {
	held, gates := s.queue.HeldPods(), s.queue.GatedPods()
	for _, pod := range sortedByUID(held) {
		s.onHold(pod, held[pod])
	}
	for _, pod := range sortedByUID(gates) {
		s.onGate(pod, gates[pod])
	}
}

// inOrder are the pods of a map, so that each history has one order.
func sortedByUID[T any](of map[*v1.Pod]T) []*v1.Pod {
	return slices.SortedFunc(maps.Keys(of), func(a, b *v1.Pod) int { return cmp.Compare(a.UID, b.UID) })
}

// onHold has a pod told that it is held, and why.
func (s *Scheduler) onHold(pod *v1.Pod, hold queue.Hold) {
	if s.isLeader() {
		s.heldStatus.add(pod, hold)
		s.explainHeld(pod, hold)
	}
}

// onGate has explained which gate holds a pod.
func (s *Scheduler) onGate(pod *v1.Pod, gate string) {
	if s.isLeader() {
		s.explainGate(pod, gate)
	}
}

// leads says whether s may write. Whoever leads next tells all that are held.
func (s *Scheduler) isLeader() bool {
	s.leadMu.Lock()
	defer s.leadMu.Unlock()
	return s.leading
}

// forget is told of a pod that is gone, or has a node.
func (s *Scheduler) forgetPod(pod *v1.Pod) {
	s.binding.Forget(pod.UID)
	switch desk := s.options.Explanations; {
	case desk == nil:
	case pod.Spec.NodeName != "" && s.podExists(pod):
		desk.PodBound(pod.Namespace, pod.Name, pod.UID)
	default:
		desk.PodDeleted(pod.Namespace, pod.Name, pod.UID)
	}
}

// known says whether pod is there still, as far as the informer has heard.
func (s *Scheduler) podExists(pod *v1.Pod) bool {
	now, err := s.options.Informers.Core().V1().Pods().Lister().Pods(pod.Namespace).Get(pod.Name)
	return err == nil && now.UID == pod.UID
}
