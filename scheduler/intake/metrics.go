package intake

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/fault"
)

var handling = prometheus.NewHistogramVec(prometheus.HistogramOpts{
	Name:    "scheduler_event_handling_duration_seconds",
	Help:    "[ALPHA] Time that it took to take in a change of the cluster, with all that it woke, by what changed.",
	Buckets: prometheus.ExponentialBuckets(0.0001, 2, 12),
}, []string{"event"})

// Metrics returns the collectors of this room.
func Metrics() []prometheus.Collector { return []prometheus.Collector{handling} }

// handled are the observers of what can happen to one kind, looked up once.
type handled struct{ added, updated, deleted prometheus.Observer }

func handledOf(kind fwk.EventResource) handled {
	observer := func(action fwk.ActionType) prometheus.Observer {
		return handling.WithLabelValues(fwk.ClusterEvent{Resource: kind, ActionType: action}.Label())
	}
	return handled{observer(fwk.Add), observer(fwk.Update), observer(fwk.Delete)}
}

var (
	ofAssigned = handledOf(fwk.AssignedPod)
	ofWaiting  = handledOf(fwk.UnscheduledPod)
	ofNodes    = handledOf(fwk.Node)
)

// of are the observers of what happens to a pod.
func of(pod *v1.Pod) handled {
	if assigned(pod) {
		return ofAssigned
	}
	return ofWaiting
}

// now is when the handling of a change begins.
func (in *Intake) now() time.Time { return in.options.Clock.Now() }

// took notes how long that took. Use it deferred.
func (in *Intake) took(begin time.Time, observer prometheus.Observer) {
	if fault.EventsUntimed {
		return
	}
	observer.Observe(in.options.Clock.Since(begin).Seconds())
}
