package queue

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// incoming counts the pods that enter a part of the queue, and why.
var incomingPods = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "scheduler_queue_incoming_pods_total",
	Help: "[STABLE] Pods added to the scheduling queue, by the part of the queue and the event.",
}, []string{"queue", "event"})

// hintTime is how long hints take in a sample of the questions.
var hintDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
	Name:    "scheduler_queueing_hint_execution_duration_seconds",
	Help:    "[ALPHA] Time of a queueing hint, one of ten, by the plugin, the event and what it answered: Queue, QueueSkip or Error.",
	Buckets: prometheus.ExponentialBuckets(0.00001, 1.5, 20),
}, []string{"plugin", "event", "hint"})

// setAside counts the pods that are set aside.
var quarantines = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "berth_pods_quarantined_total",
	Help: "[ALPHA] How often a pod was set aside because a plugin panicked or hung at it again and again, by the profile and the plugin.",
}, []string{"profile", "plugin"})

// loopTime is how the loop spends its time.
var loopSeconds = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "berth_loop_seconds_total",
	Help: "[ALPHA] Time that the loop spent on attempts, by the profile. The rest of its time it waited.",
}, []string{"profile"})

// ForgetProfile drops the metric series of a profile that is gone.
func ForgetProfile(profile string) {
	quarantines.DeletePartialMatch(prometheus.Labels{"profile": profile})
	loopSeconds.DeletePartialMatch(prometheus.Labels{"profile": profile})
}

// Metrics returns the collectors of this room: what moves, and where the pods
// of all profiles wait at the moment of a scrape.
func (q *Queue) Metrics() []prometheus.Collector {
	return []prometheus.Collector{incomingPods, entitiesCollector{}, hintDuration, quarantines, loopSeconds, metricsCollector{q}}
}

// hintsAsked is how many hints were, by all rules.
var hintCalls atomic.Uint64

// begins is when a hint is asked; zero when it is none of the sample.
func (r *Rules) startHintTimer() time.Time {
	if r.Clock == nil || hintCalls.Add(1)%framework.SampleEvery != 0 {
		return time.Time{}
	}
	return r.Clock.Now()
}

// took notes how long a hint took that was asked then.
func (r *Rules) observeHint(begin time.Time, plugin string, e event, answer string) {
	if !begin.IsZero() {
		hintDuration.WithLabelValues(plugin, e.Label(), answer).Observe(r.Clock.Since(begin).Seconds())
	}
}

func hintResult(hint fwk.QueueingHint, err error) string {
	switch {
	case err != nil:
		return "Error"
	case hint == fwk.QueueSkip:
		return "QueueSkip"
	}
	return "Queue"
}
