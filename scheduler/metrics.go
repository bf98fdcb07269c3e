package scheduler

import (
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berthdev/berth/scheduler/binding"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/eventhandlers"
	"github.com/berthdev/berth/scheduler/extender"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/journal"
	"github.com/berthdev/berth/scheduler/preemption"
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/scheduler/volumes"
)

// The names, labels and buckets are kube-scheduler's, so that dashboards made for
// it keep working; so is the stability that a help text begins with.
var (
	scheduleAttempts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "scheduler_schedule_attempts_total",
		Help: "[STABLE] Attempts to schedule a pod, by result: scheduled, unschedulable or error.",
	}, []string{"result", "profile"})
	attemptDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "scheduler_scheduling_attempt_duration_seconds",
		Help:    "[STABLE] Time of an attempt, from when the pod was popped until it was bound or refused.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
	}, []string{"result", "profile"})
	algorithmDuration = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "scheduler_scheduling_algorithm_duration_seconds",
		Help:    "[BETA] Time from when a pod was popped until a node was chosen, or it was clear that it fits nowhere and who could make room.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
	})
	podDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "scheduler_pod_scheduling_sli_duration_seconds",
		Help:    "[BETA] Time from when a pod was first ready to be tried until it was bound, by how many attempts that took: 1 to 14, or 15+.",
		Buckets: prometheus.ExponentialBuckets(0.01, 2, 20),
	}, []string{"attempts"})
	goroutines = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "scheduler_goroutines",
		Help: "[BETA] Work that goes on beside the loop, by what it is: binding is pods on their way to their node.",
	}, []string{"operation"})
	podAttempts = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "scheduler_pod_scheduling_attempts",
		Help:    "[STABLE] Attempts it took to schedule a pod.",
		Buckets: prometheus.ExponentialBuckets(1, 2, 5),
	})
	afterFlush = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "scheduler_pod_scheduled_after_flush_total",
		Help: "[ALPHA] Pods bound after the flush woke them rather than an event. Anything but 0 means that a queueing hint missed what made the pod fit.",
	})
)

// Metrics returns the collectors of all rooms of the scheduler.
func (s *Scheduler) Metrics() []prometheus.Collector {
	return slices.Concat(
		[]prometheus.Collector{scheduleAttempts, attemptDuration, algorithmDuration, podDuration, podAttempts, afterFlush, goroutines, fencedPods, handoverDuration},
		s.queue.Metrics(), s.cache.Metrics(), eventhandlers.Metrics(), framework.Metrics(), extender.Metrics(), cycle.Metrics(), s.cacheBudget.Metrics(), binding.Metrics(), journal.Metrics(), preemption.Metrics(), volumes.Metrics(),
	)
}

// bindings counts the pods on their way to their node.
var bindingGoroutines = goroutines.WithLabelValues("binding")

// arrived counts a pod that was bound now, after so many attempts since then.
func (s *Scheduler) observeScheduled(attempts int, since time.Time) {
	label := "15+"
	if attempts < 15 {
		label = strconv.Itoa(attempts)
	}
	podDuration.WithLabelValues(label).Observe(s.options.Clock.Since(since).Seconds())
	podAttempts.Observe(float64(attempts))
}

// attempted counts an attempt that ended now.
func (s *Scheduler) observeAttempt(result string, t *schedulingCycle) {
	name := t.generation.Blueprint().Name
	scheduleAttempts.WithLabelValues(result, name).Inc()
	attemptDuration.WithLabelValues(result, name).Observe(s.options.Clock.Since(t.start).Seconds())
}

// forgetProfile drops the series of a profile that is gone.
func deleteProfileSeries(name string) {
	framework.ForgetProfile(name)
	extender.ForgetProfile(name)
	queue.ForgetProfile(name)
	scheduleAttempts.DeletePartialMatch(prometheus.Labels{"profile": name})
	attemptDuration.DeletePartialMatch(prometheus.Labels{"profile": name})
}
