package recorder

import "github.com/prometheus/client_golang/prometheus"

var (
	eventsWaiting = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "berth_events_waiting",
		Help: "[ALPHA] Events that wait to be written. Writing Events yields to binds.",
	})
	eventsDropped = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "berth_events_dropped_total",
		Help: "[ALPHA] Events that were not written: too many waited, or the API server refused them.",
	})
)

// Metrics returns the collectors of this room.
func Metrics() []prometheus.Collector { return []prometheus.Collector{eventsWaiting, eventsDropped} }
