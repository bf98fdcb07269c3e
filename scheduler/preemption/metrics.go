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
		Help: "[STABLE] Attempts to make room for a pod by evicting others.",
	})
)

var (
	evictionTime = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "scheduler_preemption_goroutines_duration_seconds",
		Help:    "[ALPHA] Time that it took, beside the loop, to tell the victims of one preemption to go, by result: success or error.",
		Buckets: prometheus.ExponentialBuckets(0.01, 2, 20),
	}, []string{"result"})
	evictions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "scheduler_preemption_goroutines_execution_total",
		Help: "[ALPHA] Preemptions that were carried out, by result: success or error.",
	}, []string{"result"})
)

// Metrics returns the collectors of this room.
func Metrics() []prometheus.Collector {
	return []prometheus.Collector{victims, attempts, evictionTime, evictions}
}

// Attempted counts an attempt to make room. A plan by itself counts nothing,
// since it may be made for the answer alone.
func RecordAttempt() { attempts.Inc() }

// CarriedOut counts the victims of a plan that is being carried out.
func RecordVictims(n int) { victims.Observe(float64(n)) }

// Ended counts a plan whose victims were told, or not all of them, in that time.
func RecordEviction(took time.Duration, err error) {
	result := "success"
	if err != nil {
		result = "error"
	}
	evictionTime.WithLabelValues(result).Observe(took.Seconds())
	evictions.WithLabelValues(result).Inc()
}
