package preemption

import "github.com/prometheus/client_golang/prometheus"

var (
	victims = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "scheduler_preemption_victims",
		Help:    "Pods that one preemption evicted.",
		Buckets: prometheus.ExponentialBuckets(1, 2, 7),
	})
	attempts = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "scheduler_preemption_attempts_total",
		Help: "Attempts to make room for a pod by evicting others.",
	})
)

// Metrics returns the collectors of this room.
func Metrics() []prometheus.Collector { return []prometheus.Collector{victims, attempts} }

// Attempted counts an attempt to make room. A plan by itself counts nothing,
// since it may be made for the answer alone.
func Attempted() { attempts.Inc() }

// CarriedOut counts the victims of a plan that is being carried out.
func CarriedOut(n int) { victims.Observe(float64(n)) }
