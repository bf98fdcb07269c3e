package cycle

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/berthdev/berth/scheduler/framework"
)

var (
	attempts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "berth_cycle_attempts_total",
		Help: "[ALPHA] Scheduling cycles by way: remembered (by the equivalence cache) or plain (by the reference, which runs every plugin for every node).",
	}, []string{"way"})
	checks = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "berth_equivalence_cache_checks_total",
		Help: "[ALPHA] Cached verdicts that were computed again, by whether they were the same. A different one is a bug; the reference then scheduled the pod.",
	}, []string{"result"})
	classesCreated = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "berth_equivalence_cache_classes_total",
		Help: "[ALPHA] Pod classes added to the equivalence caches.",
	})
	evictions = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "berth_equivalence_cache_evictions_total",
		Help: "[ALPHA] Pod classes evicted from the equivalence caches to stay within their memory limit.",
	})

	cachedAttempts, uncachedAttempts  = attempts.WithLabelValues("remembered"), attempts.WithLabelValues("plain")
	matchingChecks, mismatchingChecks = checks.WithLabelValues("same"), checks.WithLabelValues("different")
)

// Metrics returns the package's collectors.
func Metrics() []prometheus.Collector {
	return []prometheus.Collector{attempts, checks, classesCreated, evictions}
}

// increment increments a counter, unless f's plugins are on trial.
func increment(f *framework.Framework, what prometheus.Counter) {
	if !f.OnTrial() {
		what.Inc()
	}
}
