package decision

import "github.com/prometheus/client_golang/prometheus"

var (
	explanationsWaiting = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "berth_explanations_waiting",
		Help: "[ALPHA] SchedulingDecisions that are to be written or deleted. Twenty a second are.",
	})
	explanationsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "berth_explanations_total",
		Help: "[ALPHA] What became of explanations: their SchedulingDecision was written (create, replace, update) or deleted (delete), or they were dropped, since too many waited or the API server refused them (dropped).",
	}, []string{"outcome"})
)

// Metrics returns the collectors of this room.
func Metrics() []prometheus.Collector {
	return []prometheus.Collector{explanationsWaiting, explanationsTotal}
}
