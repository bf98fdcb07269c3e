package scheduler

import (
	"context"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/berthdev/berth/scheduler/queue"
)

// waitingPods tells the queue of changes to profiles.
type waitingPods struct{ *Scheduler }

// Adopt hands the new rules to the queue and, since the pods of a name that
// nobody served were not kept, looks for them.
func (w waitingPods) Adopt(ctx context.Context, name string, rules *queue.Rules) {
	w.queue.Adopt(ctx, name, rules)
	lister := w.options.Informers.Core().V1().Pods().Lister()
	pods, err := lister.List(labels.Everything())
	if err != nil {
		w.options.Log.Error(err, "Cannot look for pods that wait for the profile", "profile", name)
		return
	}
	for _, pod := range pods {
		if pod.Spec.NodeName != "" || pod.Spec.SchedulerName != name {
			continue
		}
		w.intake.Waits(ctx, pod)
		// The informer may have told of the pod's end before the pod was here
		// to be deleted. If it tells from now on, it finds the pod.
		now, err := lister.Pods(pod.Namespace).Get(pod.Name)
		if err != nil || now.UID != pod.UID || now.Spec.NodeName != "" {
			w.intake.WaitsNot(pod)
		}
	}
}

// Abandon parks the profile's pods.
func (w waitingPods) Abandon(_ context.Context, name string, hold queue.Hold) {
	w.queue.Abandon(name, hold)
}
