package queue

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// incomingPods counts the pods that enter a part of the queue, by the event that
// moved them.
var incomingPods = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "scheduler_queue_incoming_pods_total",
	Help: "[STABLE] Number of pods added to the scheduling queue, by queue and event.",
}, []string{"queue", "event"})

// hintDuration is the duration of a sample of the calls of queueing hints.
var hintDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
	Name:    "scheduler_queueing_hint_execution_duration_seconds",
	Help:    "[ALPHA] Duration in seconds of queueing hints, for one call in ten, by plugin, event and result: Queue, QueueSkip or Error.",
	Buckets: prometheus.ExponentialBuckets(0.00001, 1.5, 20),
}, []string{"plugin", "event", "hint"})

// quarantines counts how often pods were quarantined.
var quarantines = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "berth_pods_quarantined_total",
	Help: "[ALPHA] Number of times that a pod was quarantined because a plugin panicked or hung at it repeatedly, by profile and plugin.",
}, []string{"profile", "plugin"})

// loopSeconds is the time that the loop spent on attempts.
var loopSeconds = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "berth_loop_seconds_total",
	Help: "[ALPHA] Time in seconds that the scheduling loop spent on attempts, by profile. The rest of its time it was idle.",
}, []string{"profile"})

// ForgetProfile deletes the metric series of a profile that is gone.
func ForgetProfile(profile string) {
	quarantines.DeletePartialMatch(prometheus.Labels{"profile": profile})
	loopSeconds.DeletePartialMatch(prometheus.Labels{"profile": profile})
}

// Metrics returns the collectors of this package: the counters, and the collector
// that counts the pods of all profiles at each scrape.
func (q *Queue) Metrics() []prometheus.Collector {
	return []prometheus.Collector{incomingPods, entitiesCollector{}, hintDuration, quarantines, loopSeconds, metricsCollector{q}}
}

// hintCalls counts the calls of hints of all profiles; every
// framework.SampleEvery-th one is timed.
var hintCalls atomic.Uint64

// startHintTimer returns the time when a hint is called, or zero when this call is
// not one of the sample.
func (r *Rules) startHintTimer() time.Time {
	if r.Clock == nil || hintCalls.Add(1)%framework.SampleEvery != 0 {
		return time.Time{}
	}
	return r.Clock.Now()
}

// observeHint records the duration of a hint that began at begin; zero is ignored.
func (r *Rules) observeHint(begin time.Time, plugin string, e event, result string) {
	if !begin.IsZero() {
		hintDuration.WithLabelValues(plugin, e.Label(), result).Observe(r.Clock.Since(begin).Seconds())
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
