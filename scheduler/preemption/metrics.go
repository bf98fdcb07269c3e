package preemption

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
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

// Metrics returns the collectors of this package.
func Metrics() []prometheus.Collector {
	return []prometheus.Collector{victims, attempts, evictionTime, evictions}
}

// RecordAttempt counts a preemption attempt. Planner.Plan does not count by itself,
// since a plan may be made only to explain why a pod waits.
func RecordAttempt() { attempts.Inc() }

// RecordVictims records the number of victims of a plan that is being carried out.
func RecordVictims(n int) { victims.Observe(float64(n)) }

// RecordEviction records the time and the result of evicting the victims of a plan.
func RecordEviction(took time.Duration, err error) {
	result := "success"
	if err != nil {
		result = "error"
	}
	evictionTime.WithLabelValues(result).Observe(took.Seconds())
	evictions.WithLabelValues(result).Inc()
}
