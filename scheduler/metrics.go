package scheduler

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berthdev/berth/scheduler/binding"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/extender"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/preemption"
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/scheduler/volumes"
)

// The names and buckets are kube-scheduler's stable ones, so that dashboards
// made for it keep working.
var (
	attempts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "scheduler_schedule_attempts_total",
		Help: "Attempts to schedule a pod, by result: scheduled, unschedulable or error.",
	}, []string{"result", "profile"})
	attemptDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "scheduler_scheduling_attempt_duration_seconds",
		Help:    "Time of an attempt, from when the pod was popped until it was bound or refused.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
	}, []string{"result", "profile"})
	podAttempts = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "scheduler_pod_scheduling_attempts",
		Help:    "Attempts it took to schedule a pod.",
		Buckets: prometheus.ExponentialBuckets(1, 2, 5),
	})
	afterFlush = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "scheduler_pod_scheduled_after_flush_total",
		Help: "Pods bound after the flush woke them rather than an event. Anything but 0 means that a queueing hint missed what made the pod fit.",
	})
)

// Metrics returns the collectors of all rooms of the scheduler.
func (s *Scheduler) Metrics() []prometheus.Collector {
	return slices.Concat(
		[]prometheus.Collector{attempts, attemptDuration, podAttempts, afterFlush},
		s.queue.Metrics(), framework.Metrics(), extender.Metrics(), cycle.Metrics(), binding.Metrics(), preemption.Metrics(), volumes.Metrics(),
	)
}

// attempted counts an attempt that ended now.
func (s *Scheduler) attempted(result string, t *turn) {
	name := t.generation.Blueprint().Name
	attempts.WithLabelValues(result, name).Inc()
	attemptDuration.WithLabelValues(result, name).Observe(s.options.Clock.Since(t.begin).Seconds())
}

// forgetProfile drops the series of a profile that is gone.
func forgetProfile(name string) {
	framework.ForgetProfile(name)
	extender.ForgetProfile(name)
	queue.ForgetProfile(name)
	attempts.DeletePartialMatch(prometheus.Labels{"profile": name})
	attemptDuration.DeletePartialMatch(prometheus.Labels{"profile": name})
}
