package controllers

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	conditionDesc = prometheus.NewDesc("berth_profile_condition",
		"[ALPHA] Conditions of SchedulingProfiles, by the reason: 1 while True, 0 while False. The leader alone tells.",
		[]string{"profile", "condition", "reason"}, nil)
	runningDesc = prometheus.NewDesc("berth_profile_running",
		"[ALPHA] Whether any generation of the SchedulingProfile runs: 1 or 0. Profiles whose name another scheduler serves are left out. The leader alone reports it.",
		[]string{"profile"}, nil)
	degradationsDesc = prometheus.NewDesc("berth_profile_degraded",
		"[ALPHA] How many things are wrong with the plugins of the profile as it runs: a sort that is not asked any more, calls that do not come back, what plugins want to hear of and cannot. The leader alone tells.",
		[]string{"profile"}, nil)
)

// verdicts are what was said last of each profile.
var profileMetrics = &profileCollector{states: map[string]profileState{}}

// verdictBook is told of verdicts, and tells of them when it is scraped: so that
// no scrape finds a condition with two reasons, or with none.
type profileCollector struct {
	mu     sync.Mutex
	states map[string]profileState
}

// said is the verdict on one profile.
type profileState struct {
	conditions   []conditionUpdate
	degradations int
	running      bool
	// elsewhere says that another scheduler serves the name.
	servedElsewhere bool
}

// Metrics returns the collectors of this room.
func Metrics() []prometheus.Collector { return []prometheus.Collector{profileMetrics} }

func (b *profileCollector) record(v observation) {
	now := profileState{conditions: v.conditions(), running: v.running != nil, servedElsewhere: v.servedElsewhere}
	if v.running != nil {
		now.degradations = len(v.running.Degradations)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.states[v.profile.Name] = now
}

func (b *profileCollector) forget(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.states, name)
}

// Describe is part of prometheus.Collector.
func (b *profileCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- conditionDesc
	ch <- degradationsDesc
	ch <- runningDesc
}

// Collect is part of prometheus.Collector.
func (b *profileCollector) Collect(ch chan<- prometheus.Metric) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, said := range b.states {
		ch <- prometheus.MustNewConstMetric(degradationsDesc, prometheus.GaugeValue, float64(said.degradations), name)
		if !said.servedElsewhere {
			runs := 0.0
			if said.running {
				runs = 1
			}
			ch <- prometheus.MustNewConstMetric(runningDesc, prometheus.GaugeValue, runs, name)
		}
		for _, r := range said.conditions {
			value := 0.0
			if r.isTrue() {
				value = 1
			}
			ch <- prometheus.MustNewConstMetric(conditionDesc, prometheus.GaugeValue, value, name, string(r.conditionType), string(r.reason))
		}
	}
}
