package eventhandlers

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/fault"
)

var handlingDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
	Name:    "scheduler_event_handling_duration_seconds",
	Help:    "[ALPHA] Time that it took to take in a change of the cluster, with all that it woke, by what changed.",
	Buckets: prometheus.ExponentialBuckets(0.0001, 2, 12),
}, []string{"event"})

// Metrics returns the collectors of this room.
func Metrics() []prometheus.Collector { return []prometheus.Collector{handlingDuration} }

// handled are the observers of what can happen to one kind, looked up once.
type handlingObservers struct{ added, updated, deleted prometheus.Observer }

func newHandlingObservers(kind fwk.EventResource) handlingObservers {
	observer := func(action fwk.ActionType) prometheus.Observer {
		return handlingDuration.WithLabelValues(fwk.ClusterEvent{Resource: kind, ActionType: action}.Label())
	}
	return handlingObservers{observer(fwk.Add), observer(fwk.Update), observer(fwk.Delete)}
}

var (
	assignedPodObservers    = newHandlingObservers(fwk.AssignedPod)
	unscheduledPodObservers = newHandlingObservers(fwk.UnscheduledPod)
	nodeObservers           = newHandlingObservers(fwk.Node)
)

// of are the observers of what happens to a pod.
func observersFor(pod *v1.Pod) handlingObservers {
	if assigned(pod) {
		return assignedPodObservers
	}
	return unscheduledPodObservers
}

// now is when the handling of a change begins.
func (in *EventHandlers) now() time.Time { return in.options.Clock.Now() }

// took notes how long that took. Use it deferred.
func (in *EventHandlers) observeHandling(begin time.Time, observer prometheus.Observer) {
	if fault.EventsUntimed {
		return
	}
	observer.Observe(in.options.Clock.Since(begin).Seconds())
}
