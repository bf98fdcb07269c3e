package journal

import "github.com/prometheus/client_golang/prometheus"

var (
	writes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "berth_binding_journal_writes_total",
		Help: "[ALPHA] Writes of the journal of Bindings, by result: written, conflict, error. Many pods share one.",
	}, []string{"result"})
	available = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "berth_binding_journal_available",
		Help: "[ALPHA] 1 while the leader can write the journal of Bindings, else 0: pods that carry PodScheduled=False may not be bound then, or the next leader fences every pod.",
	})
)

// Metrics returns the collectors of this package.
func Metrics() []prometheus.Collector { return []prometheus.Collector{writes, available} }
