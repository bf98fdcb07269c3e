package journal

import "github.com/prometheus/client_golang/prometheus"

var (
	writes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "berth_binding_journal_writes_total",
		Help: "[ALPHA] Number of writes of the journal of Bindings, by result: written, conflict or error. Many pods share one write.",
	}, []string{"result"})
	available = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "berth_binding_journal_available",
		Help: "[ALPHA] 1 while the leader can write the journal of Bindings, else 0. While it is 0, either pods that carry PodScheduled=False are not bound, or the next leader has to fence every pod.",
	})
)

// Metrics returns the collectors of this package.
func Metrics() []prometheus.Collector { return []prometheus.Collector{writes, available} }
