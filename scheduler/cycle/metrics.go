package cycle

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/berthdev/berth/scheduler/framework"
)

var (
	ways = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "berth_cycle_attempts_total",
		Help: "[ALPHA] Attempts to find a node, by the way they went: from verdicts that were remembered, or plain, asking every plugin.",
	}, []string{"way"})
	checks = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "berth_memo_checks_total",
		Help: "[ALPHA] Verdicts that were remembered and made again, by whether they were the same. A different one is a bug; the attempt went the plain way.",
	}, []string{"result"})
	classesMade = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "berth_memo_classes_total",
		Help: "[ALPHA] Classes of pods that were met for the first time.",
	})
	evictions = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "berth_memo_evictions_total",
		Help: "[ALPHA] Classes of pods that were forgotten to make room for others.",
	})

	goneRemembered, gonePlain = ways.WithLabelValues("remembered"), ways.WithLabelValues("plain")
	same, different           = checks.WithLabelValues("same"), checks.WithLabelValues("different")
)

// Metrics returns the collectors of this room.
func Metrics() []prometheus.Collector {
	return []prometheus.Collector{ways, checks, classesMade, evictions}
}

// count counts what happened, unless f's plugins are only on trial.
func count(f *framework.Framework, what prometheus.Counter) {
	if !f.OnTrial() {
		what.Inc()
	}
}
