// Package preemption answers who could make room for a pod that fits nowhere.
// Its plan is carried out by binding. So far it holds the metrics only, since
// dashboards expect their names: no plugin of this build preempts.
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
