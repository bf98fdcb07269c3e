package volumes

import "github.com/prometheus/client_golang/prometheus"

var (
	// cacheRequests is there by name alone: upstream registers it and counts
	// nothing, since there is no such cache any more.
	cacheRequests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "scheduler_volume_binder_cache_requests_total",
		Help: "[ALPHA] Requests to a cache of volume bindings that is no more.",
	}, []string{"operation"})
	stageErrors = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "scheduler_volume_scheduling_stage_error_total",
		Help: "[ALPHA] Errors of volume binding, by stage: predicate, assume, bind.",
	}, []string{"operation"})
)

// Metrics returns the collectors of this room.
func Metrics() []prometheus.Collector { return []prometheus.Collector{cacheRequests, stageErrors} }
