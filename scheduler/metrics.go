package scheduler

import (
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berthdev/berth/scheduler/binding"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/devices"
	"github.com/berthdev/berth/scheduler/eventhandlers"
	"github.com/berthdev/berth/scheduler/extender"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/journal"
	"github.com/berthdev/berth/scheduler/preemption"
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/scheduler/volumes"
)

// Names, labels, buckets and stability levels are kube-scheduler's, so that dashboards
// made for it keep working.
var (
	scheduleAttempts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "scheduler_schedule_attempts_total",
		Help: "[STABLE] Attempts to schedule a pod, by result: scheduled, waiting_on_preemption, unschedulable or error.",
	}, []string{"result", "profile"})
	attemptDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "scheduler_scheduling_attempt_duration_seconds",
		Help:    "[STABLE] Time of a scheduling attempt, from when the queue popped the pod until it was bound or the attempt failed.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
	}, []string{"result", "profile"})
	algorithmDuration = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "scheduler_scheduling_algorithm_duration_seconds",
		Help:    "[BETA] Time from when the queue popped a pod until a node was chosen, or until the pod was found unschedulable and preemption was tried.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
	})
	podDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "scheduler_pod_scheduling_sli_duration_seconds",
		Help:    "[BETA] Time from when a pod was first ready to be scheduled until it was bound, by its number of attempts: 1 to 14, or 15+.",
		Buckets: prometheus.ExponentialBuckets(0.01, 2, 20),
	}, []string{"attempts"})
	goroutines = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "scheduler_goroutines",
		Help: "[BETA] Goroutines beside the scheduling loop, by operation; binding counts binding cycles.",
	}, []string{"operation"})
	podAttempts = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "scheduler_pod_scheduling_attempts",
		Help:    "[STABLE] Attempts it took to schedule a pod.",
		Buckets: prometheus.ExponentialBuckets(1, 2, 5),
	})
	groupAttempts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "scheduler_podgroup_schedule_attempts_total",
		Help: "[ALPHA] Attempts to schedule a group of pods, by result: scheduled, waiting_on_preemption, unschedulable or error.",
	}, []string{"result", "profile"})
	groupAttemptDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "scheduler_podgroup_scheduling_attempt_duration_seconds",
		Help:    "[ALPHA] Time of an attempt to schedule a group of pods, from when the queue popped it until its pods were assumed or refused.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
	}, []string{"result", "profile"})
	groupAlgorithmDuration = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "scheduler_podgroup_scheduling_algorithm_duration_seconds",
		Help:    "[ALPHA] Time from when the queue popped a group of pods until a node was chosen for each of its pods, or until too few of them fit.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
	})
	afterFlush = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "scheduler_pod_scheduled_after_flush_total",
		Help: "[ALPHA] Pods bound after the periodic flush requeued them rather than an event. Anything but 0 means that a queueing hint missed the event that made the pod fit.",
	})
)

// Metrics returns the collectors of all packages of the scheduler.
func (s *Scheduler) Metrics() []prometheus.Collector {
	return slices.Concat(
		[]prometheus.Collector{scheduleAttempts, attemptDuration, algorithmDuration, podDuration, podAttempts, afterFlush, groupAttempts, groupAttemptDuration, groupAlgorithmDuration, goroutines, fencedPods, handoverDuration},
		s.queue.Metrics(), s.cache.Metrics(), eventhandlers.Metrics(), framework.Metrics(), extender.Metrics(), cycle.Metrics(), s.cacheBudget.Metrics(), binding.Metrics(), journal.Metrics(), preemption.Metrics(), volumes.Metrics(), devices.Metrics(),
	)
}

// bindingGoroutines counts the binding cycles that run.
var bindingGoroutines = goroutines.WithLabelValues("binding")

// observeScheduled records a bound pod: its number of attempts, and the time since it
// was first ready to be scheduled.
func (s *Scheduler) observeScheduled(attempts int, since time.Time) {
	label := "15+"
	if attempts < 15 {
		label = strconv.Itoa(attempts)
	}
	podDuration.WithLabelValues(label).Observe(s.options.Clock.Since(since).Seconds())
	podAttempts.Observe(float64(attempts))
}

// observeAttempt records an attempt that ended now.
func (s *Scheduler) observeAttempt(result string, t *schedulingCycle) {
	name := t.generation.Blueprint().Name
	scheduleAttempts.WithLabelValues(result, name).Inc()
	attemptDuration.WithLabelValues(result, name).Observe(s.options.Clock.Since(t.start).Seconds())
}

// deleteProfileSeries removes the series of a deleted profile.
func deleteProfileSeries(name string) {
	framework.ForgetProfile(name)
	extender.ForgetProfile(name)
	queue.ForgetProfile(name)
	scheduleAttempts.DeletePartialMatch(prometheus.Labels{"profile": name})
	attemptDuration.DeletePartialMatch(prometheus.Labels{"profile": name})
	groupAttempts.DeletePartialMatch(prometheus.Labels{"profile": name})
	groupAttemptDuration.DeletePartialMatch(prometheus.Labels{"profile": name})
}
