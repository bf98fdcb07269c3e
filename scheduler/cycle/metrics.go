package cycle

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/berthdev/berth/scheduler/framework"
)

var (
	attempts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "berth_cycle_attempts_total",
		Help: "[ALPHA] Attempts to find a node, by the way they went: from verdicts that were remembered, or plain, asking every plugin.",
	}, []string{"way"})
	checks = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "berth_equivalence_cache_checks_total",
		Help: "[ALPHA] Verdicts that were remembered and made again, by whether they were the same. A different one is a bug; the attempt went the plain way.",
	}, []string{"result"})
	classesCreated = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "berth_equivalence_cache_classes_total",
		Help: "[ALPHA] Classes of pods that were met for the first time.",
	})
	evictions = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "berth_equivalence_cache_evictions_total",
		Help: "[ALPHA] Classes of pods that were forgotten to make room for others.",
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
