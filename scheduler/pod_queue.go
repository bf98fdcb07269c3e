package scheduler

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/queue"
)

// podQueue implements profile's queue interface: it passes changes of profiles on
// to the queue, and adds the pods that the queue did not keep.
type podQueue struct{ *Scheduler }

// SetProfile gives the queue the rules of a profile. The queue does not keep pods
// whose schedulerName no profile serves; when a name is served for the first time,
// SetProfile adds its pods from the informer. A swap of a served name reads no list.
func (q podQueue) SetProfile(ctx context.Context, name string, rules *queue.Rules) {
	if q.queue.Serves(name) {
		q.queue.SetProfile(ctx, name, rules)
		return
	}
	// All nominations are recorded before the first of the pods is tried: otherwise a
	// pod could take resources that are nominated to another one.
	var nominated []*v1.Pod
	for _, pod := range q.unassignedPods(name) {
		if pod.Status.NominatedNodeName != "" && !fault.PromisesAdoptedInTurn {
			q.eventHandlers.AddNomination(pod)
			nominated = append(nominated, pod)
		}
	}
	q.queue.SetProfile(ctx, name, rules)
	lister := q.options.Informers.Core().V1().Pods().Lister()
	for _, pod := range slices.Concat(nominated, q.unassignedPods(name)) {
		q.enqueueListed(ctx, lister, pod)
	}
}

// unassignedPods lists the pods that name the profile and have no node.
func (q podQueue) unassignedPods(name string) []*v1.Pod {
	pods, err := q.options.Informers.Core().V1().Pods().Lister().List(labels.Everything())
	if err != nil {
		q.options.Log.Error(err, "Cannot look for pods that wait for the profile", "profile", name)
	}
	return slices.DeleteFunc(pods, func(pod *v1.Pod) bool { return pod.Spec.NodeName != "" || pod.Spec.SchedulerName != name })
}

// enqueueListed adds a listed pod to the queue. The event handlers may handle a
// newer version of the pod at the same time, before or after this call; so the
// informer's store, which is updated first, is read again until both agree.
func (q podQueue) enqueueListed(ctx context.Context, lister corelisters.PodLister, pod *v1.Pod) {
	q.eventHandlers.AddUnscheduledPod(ctx, pod)
	for !fault.AdoptedUnseen {
		latest, err := lister.Pods(pod.Namespace).Get(pod.Name)
		if err != nil || latest.UID != pod.UID || latest.Spec.NodeName != "" {
			q.eventHandlers.RemoveUnscheduledPod(pod)
			return
		}
		if latest == pod {
			return
		}
		// As an update: the older version may say what is over, such as a nomination.
		if fault.PromiseAdopted {
			q.eventHandlers.AddUnscheduledPod(ctx, latest)
		} else {
			q.eventHandlers.UpdateUnscheduledPod(ctx, pod, latest)
		}
		pod = latest
	}
}

// RecheckHolds evaluates again which pods of a profile are held; with namespace,
// only the pods of that namespace.
func (q podQueue) RecheckHolds(ctx context.Context, name, namespace string) {
	q.queue.Reconsider(ctx, name, func(pod *v1.Pod) bool { return namespace == "" || pod.Namespace == namespace })
}

// reevaluateHolds evaluates again which pods are held, in all profiles, for the pods
// that concerned selects. It returns when all are done. A pod that is in a cycle is
// evaluated when it comes back to the queue.
func (s *Scheduler) reevaluateHolds(ctx context.Context, concerned func(*v1.Pod) bool) {
	for _, name := range s.profiles.Names() {
		s.queue.Reconsider(ctx, name, concerned)
	}
}

// RecheckGates lets the queue run the pod's PreEnqueue plugins again.
func (q podQueue) RecheckGates(ctx context.Context, uid types.UID) { q.queue.GateOpened(ctx, uid) }

// RemoveProfile holds the profile's pods.
func (q podQueue) RemoveProfile(_ context.Context, name string, hold queue.Hold) {
	q.queue.RemoveProfile(name, hold)
}

// HoldProfile holds the pods of a profile that does not run, and adds those that
// the queue did not keep because no profile served the name.
func (q podQueue) HoldProfile(ctx context.Context, name string, hold queue.Hold) {
	q.queue.HoldProfile(name, hold)
	lister := q.options.Informers.Core().V1().Pods().Lister()
	for _, pod := range q.unassignedPods(name) {
		if !q.queue.Has(pod.UID) {
			q.enqueueListed(ctx, lister, pod)
		}
	}
}

// forgetPod is called by the event handlers for a pod that was deleted or has a
// node.
func (s *Scheduler) forgetPod(pod *v1.Pod) {
	s.binding.Forget(pod.UID)
	switch explanations := s.options.Explanations; {
	case explanations == nil:
	case pod.Spec.NodeName != "" && s.podExists(pod):
		explanations.PodBound(pod.Namespace, pod.Name, pod.UID)
	default:
		explanations.PodDeleted(pod.Namespace, pod.Name, pod.UID)
	}
}

// podExists reports whether the pod is in the informer's store.
func (s *Scheduler) podExists(pod *v1.Pod) bool {
	latest, err := s.options.Informers.Core().V1().Pods().Lister().Pods(pod.Namespace).Get(pod.Name)
	return err == nil && latest.UID == pod.UID
}
