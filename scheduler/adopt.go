package scheduler

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/berthdev/berth/scheduler/queue"
)

// waitingPods tells the queue of changes to profiles.
type waitingPods struct{ *Scheduler }

// Adopt hands the new rules to the queue and, since the pods of a name that
// nobody served were not kept, looks for them. Of a name that was served the
// queue has them all: a swap costs no look at every pod.
func (w waitingPods) Adopt(ctx context.Context, name string, rules *queue.Rules) {
	served := w.queue.Serves(name)
	w.queue.Adopt(ctx, name, rules)
	if served {
		return
	}
	lister := w.options.Informers.Core().V1().Pods().Lister()
	pods, err := lister.List(labels.Everything())
	if err != nil {
		w.options.Log.Error(err, "Cannot look for pods that wait for the profile", "profile", name)
		return
	}
	for _, pod := range pods {
		if pod.Spec.NodeName == "" && pod.Spec.SchedulerName == name {
			w.adopt(ctx, lister, pod)
		}
	}
}

// adopt gives the queue a pod as the informer once listed it. What it tells of
// the pod beside us may come before that: so the store, which moves first, has
// the last word.
func (w waitingPods) adopt(ctx context.Context, lister corelisters.PodLister, pod *v1.Pod) {
	for {
		w.intake.Waits(ctx, pod)
		now, err := lister.Pods(pod.Namespace).Get(pod.Name)
		if err != nil || now.UID != pod.UID || now.Spec.NodeName != "" {
			w.intake.WaitsNot(pod)
			return
		}
		if now == pod {
			return
		}
		pod = now
	}
}

// Abandon parks the profile's pods.
func (w waitingPods) Abandon(_ context.Context, name string, hold queue.Hold) {
	w.queue.Abandon(name, hold)
}

// tellHeld writes into a pod's status that it is held, and why. A follower
// does not write: whoever leads next tells all that are held.
func (s *Scheduler) tellHeld(pod *v1.Pod, hold queue.Hold) {
	s.lead.Lock()
	leading := s.leading
	s.lead.Unlock()
	if leading {
		s.binding.Refuse(pod, hold.Reason, hold.Message, nil)
	}
}
