package preemption

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

var (
	victims = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "scheduler_preemption_victims",
		Help:    "[STABLE] Pods that one preemption evicted.",
		Buckets: prometheus.ExponentialBuckets(1, 2, 7),
	})
	attempts = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "scheduler_preemption_attempts_total",
		Help: "[STABLE] Preemption attempts.",
	})
)

var (
	evictionTime = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "scheduler_preemption_goroutines_duration_seconds",
		Help:    "[ALPHA] Time to evict the victims of one preemption, outside the scheduling loop, by result: success or error.",
		Buckets: prometheus.ExponentialBuckets(0.01, 2, 20),
	}, []string{"result"})
	evictions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "scheduler_preemption_goroutines_execution_total",
		Help: "[ALPHA] Preemptions that were carried out, by result: success or error.",
	}, []string{"result"})
)

var (
	groupVictims = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "scheduler_workload_preemption_victims",
		Help:    "[ALPHA] Pods that one preemption of a group evicted.",
		Buckets: prometheus.ExponentialBuckets(1, 2, 11),
	})
	groupAttempts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "scheduler_workload_preemption_attempts_total",
		Help: "[ALPHA] Preemption attempts of groups, by result: Success, Unschedulable, UnschedulableAndUnresolvable or Error.",
	}, []string{"result"})
	disruptions = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "scheduler_preemption_workload_disruptions",
		Help:    "[ALPHA] Victims of one preemption that were groups, or single pods of groups, by preemptor: pod or podgroup.",
		Buckets: prometheus.ExponentialBuckets(1, 2, 11),
	}, []string{"preemptor"})
	budgetViolations = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "scheduler_preemption_pdb_violations_total",
		Help: "[ALPHA] Victims that a PodDisruptionBudget protected, by preemptor: pod or podgroup.",
	}, []string{"preemptor"})
	evaluationTime = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "scheduler_preemption_evaluation_duration_seconds",
		Help:    "[ALPHA] Time to find the victims of one preemption, in the scheduling loop, by preemptor, pod or podgroup, and result, as of workload_preemption_attempts_total.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 16),
	}, []string{"preemptor", "result"})
	executionTime = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "scheduler_preemption_execution_duration_seconds",
		Help:    "[ALPHA] Time to evict the victims of one preemption, outside the scheduling loop, by preemptor, pod or podgroup, and result: success or error.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 16),
	}, []string{"preemptor", "result"})
)

// Series that are seldom used are there from the start, so that their rates are right.
func init() {
	for _, result := range []fwk.Code{fwk.Success, fwk.Unschedulable, fwk.UnschedulableAndUnresolvable, fwk.Error} {
		groupAttempts.WithLabelValues(result.String())
	}
	for _, kind := range []fwk.EntityKeyType{fwk.PodKeyType, fwk.PodGroupKeyType} {
		disruptions.WithLabelValues(string(kind))
		budgetViolations.WithLabelValues(string(kind))
	}
}

// Metrics returns the collectors of this package.
func Metrics() []prometheus.Collector {
	return []prometheus.Collector{victims, attempts, evictionTime, evictions,
		groupVictims, groupAttempts, disruptions, budgetViolations, evaluationTime, executionTime}
}

// RecordAttempt counts a preemption attempt of a pod, and the time that it took. Planner.Plan
// does not count by itself, since a plan may be made only to explain why a pod waits.
func RecordAttempt(err error, took time.Duration) {
	attempts.Inc()
	result := fwk.Success
	var fitErr *framework.FitError
	var ineligible *framework.IneligibleError
	switch {
	case errors.As(err, &fitErr) || errors.As(err, &ineligible):
		result = fwk.Unschedulable
	case err != nil:
		result = fwk.Error
	}
	evaluationTime.WithLabelValues(string(fwk.PodKeyType), result.String()).Observe(took.Seconds())
}

// RecordGroupAttempt counts a preemption attempt of a group, and the time that it took.
func RecordGroupAttempt(result fwk.Code, took time.Duration) {
	groupAttempts.WithLabelValues(result.String()).Inc()
	evaluationTime.WithLabelValues(string(fwk.PodGroupKeyType), result.String()).Observe(took.Seconds())
}

// RecordPlan records the victims of a plan that is being carried out.
func RecordPlan(plan *framework.PreemptionPlan) {
	if plan.Group != nil {
		groupVictims.Observe(float64(len(plan.Victims)))
	} else {
		victims.Observe(float64(len(plan.Victims)))
	}
	if plan.GroupDisruptions > 0 {
		disruptions.WithLabelValues(plan.Kind()).Observe(float64(plan.GroupDisruptions))
	}
	if plan.Violations > 0 {
		budgetViolations.WithLabelValues(plan.Kind()).Add(float64(plan.Violations))
	}
}

// RecordEviction records the time and the result of evicting the victims of a plan.
func RecordEviction(plan *framework.PreemptionPlan, took time.Duration, err error) {
	result := "success"
	if err != nil {
		result = "error"
	}
	evictionTime.WithLabelValues(result).Observe(took.Seconds())
	evictions.WithLabelValues(result).Inc()
	executionTime.WithLabelValues(plan.Kind(), result).Observe(took.Seconds())
}
