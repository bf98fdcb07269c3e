package binding

import "github.com/prometheus/client_golang/prometheus"

var (
	rebindsTotal = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "berth_rebinds_total",
		Help: "[ALPHA] Bindings sent again at once, after an answer that left open whether the first one counted.",
	})
	statusFailures = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "berth_pod_status_write_failures_total",
		Help: "[ALPHA] Writes of a pod's status that failed. Most are tried again.",
	})
)

// Metrics returns the collectors of this room.
func Metrics() []prometheus.Collector { return []prometheus.Collector{rebindsTotal, statusFailures} }
