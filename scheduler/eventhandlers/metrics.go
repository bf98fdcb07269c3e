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
	Help:    "[ALPHA] Duration in seconds of the handling of a cluster event, requeueing included, by event.",
	Buckets: prometheus.ExponentialBuckets(0.0001, 2, 12),
}, []string{"event"})

// Metrics returns the collectors of this package.
func Metrics() []prometheus.Collector { return []prometheus.Collector{handlingDuration} }

// handlingObservers observe the handling of the events of one resource. The label
// values are resolved once.
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

// observersFor returns the observers for the events of a pod.
func observersFor(pod *v1.Pod) handlingObservers {
	if assigned(pod) {
		return assignedPodObservers
	}
	return unscheduledPodObservers
}

// now returns the time at which the handling of an event begins.
func (h *EventHandlers) now() time.Time { return h.options.Clock.Now() }

// observeHandling records how long an event was handled that came at begin. It is
// called deferred.
func (h *EventHandlers) observeHandling(begin time.Time, observer prometheus.Observer) {
	if fault.EventsUntimed {
		return
	}
	observer.Observe(h.options.Clock.Since(begin).Seconds())
}
