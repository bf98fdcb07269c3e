package controllers

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	conditionDesc = prometheus.NewDesc("berth_profile_condition",
		"[ALPHA] Conditions of SchedulingProfiles, by the reason: 1 while True, 0 while False. The leader alone tells.",
		[]string{"profile", "condition", "reason"}, nil)
	runsDesc = prometheus.NewDesc("berth_profile_running",
		"[ALPHA] Whether any generation of the SchedulingProfile runs: 1 or 0. Profiles whose name another scheduler serves are left out. The leader alone reports it.",
		[]string{"profile"}, nil)
	ailmentsDesc = prometheus.NewDesc("berth_profile_ailments",
		"[ALPHA] How many things are wrong with the plugins of the profile as it runs: a sort that is not asked any more, calls that do not come back, what plugins want to hear of and cannot. The leader alone tells.",
		[]string{"profile"}, nil)
)

// verdicts are what was said last of each profile.
var verdicts = &verdictBook{said: map[string]said{}}

// verdictBook is told of verdicts, and tells of them when it is scraped: so that
// no scrape finds a condition with two reasons, or with none.
type verdictBook struct {
	mu   sync.Mutex
	said map[string]said
}

// said is the verdict on one profile.
type said struct {
	rulings  []ruling
	ailments int
	runs     bool
	// elsewhere says that another scheduler serves the name.
	elsewhere bool
}

// Metrics returns the collectors of this room.
func Metrics() []prometheus.Collector { return []prometheus.Collector{verdicts} }

func (b *verdictBook) note(v visit) {
	now := said{rulings: v.rulings(), runs: v.running != nil, elsewhere: v.elsewhere}
	if v.running != nil {
		now.ailments = len(v.running.Ailments)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.said[v.profile.Name] = now
}

func (b *verdictBook) forget(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.said, name)
}

// Describe is part of prometheus.Collector.
func (b *verdictBook) Describe(ch chan<- *prometheus.Desc) {
	ch <- conditionDesc
	ch <- ailmentsDesc
	ch <- runsDesc
}

// Collect is part of prometheus.Collector.
func (b *verdictBook) Collect(ch chan<- prometheus.Metric) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, said := range b.said {
		ch <- prometheus.MustNewConstMetric(ailmentsDesc, prometheus.GaugeValue, float64(said.ailments), name)
		if !said.elsewhere {
			runs := 0.0
			if said.runs {
				runs = 1
			}
			ch <- prometheus.MustNewConstMetric(runsDesc, prometheus.GaugeValue, runs, name)
		}
		for _, r := range said.rulings {
			value := 0.0
			if r.holds() {
				value = 1
			}
			ch <- prometheus.MustNewConstMetric(conditionDesc, prometheus.GaugeValue, value, name, string(r.condition), string(r.reason))
		}
	}
}
