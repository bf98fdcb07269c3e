package controllers

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	conditionDesc = prometheus.NewDesc("berth_profile_condition",
		"[ALPHA] Conditions of SchedulingProfiles, by reason: 1 while True, 0 while False. Only the leader reports it.",
		[]string{"profile", "condition", "reason"}, nil)
	runningDesc = prometheus.NewDesc("berth_profile_running",
		"[ALPHA] Whether any generation of the SchedulingProfile runs: 1 or 0. Profiles whose name another scheduler serves are left out. Only the leader reports it.",
		[]string{"profile"}, nil)
	startTimeDesc = prometheus.NewDesc("berth_profile_generation_start_time_seconds",
		"[ALPHA] Unix time since which the running generation of the SchedulingProfile has run in the leader's process, with the hash of its Blueprint. A swap starts a generation with another hash; another leader has one with the same hash and a time of its own. Only the leader reports it.",
		[]string{"profile", "hash"}, nil)
	degradationsDesc = prometheus.NewDesc("berth_profile_degraded",
		"[ALPHA] How many degradations the plugins of the running profile have: a replaced queueSort plugin, calls that do not return, events that cannot be watched. Only the leader reports it.",
		[]string{"profile"}, nil)
)

// profileMetrics holds the state of each profile as it was reconciled last.
var profileMetrics = &profileCollector{states: map[string]profileState{}}

// profileCollector keeps the state of each profile, and collects the metrics from it
// when it is scraped, so that no scrape finds a condition with two reasons or with
// none. It is safe for concurrent use.
type profileCollector struct {
	mu     sync.Mutex
	states map[string]profileState
}

// profileState is what the metrics say about one profile.
type profileState struct {
	conditions   []conditionUpdate
	degradations int
	// running is nil when nothing runs under the profile's name.
	running *runningGeneration
	// servedElsewhere says that another scheduler serves the profile's name.
	servedElsewhere bool
}

// runningGeneration identifies the generation of a profile that runs.
type runningGeneration struct {
	hash  string
	since time.Time
}

// Metrics returns the collectors of this package.
func Metrics() []prometheus.Collector { return []prometheus.Collector{profileMetrics} }

func (c *profileCollector) record(v observation) {
	now := profileState{conditions: v.conditions(), servedElsewhere: v.servedElsewhere}
	if v.running != nil {
		now.degradations = len(v.running.Degradations)
		now.running = &runningGeneration{hash: v.running.Blueprint.Hash, since: v.running.Since}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.states[v.profile.Name] = now
}

func (c *profileCollector) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.states, name)
}

// Describe implements prometheus.Collector.
func (c *profileCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- conditionDesc
	ch <- degradationsDesc
	ch <- runningDesc
	ch <- startTimeDesc
}

// Collect implements prometheus.Collector.
func (c *profileCollector) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, state := range c.states {
		ch <- prometheus.MustNewConstMetric(degradationsDesc, prometheus.GaugeValue, float64(state.degradations), name)
		if !state.servedElsewhere {
			running := 0.0
			if state.running != nil {
				running = 1
			}
			ch <- prometheus.MustNewConstMetric(runningDesc, prometheus.GaugeValue, running, name)
		}
		if r := state.running; r != nil {
			ch <- prometheus.MustNewConstMetric(startTimeDesc, prometheus.GaugeValue, float64(r.since.UnixMilli())/1000, name, r.hash)
		}
		for _, c := range state.conditions {
			value := 0.0
			if c.isTrue() {
				value = 1
			}
			ch <- prometheus.MustNewConstMetric(conditionDesc, prometheus.GaugeValue, value, name, string(c.conditionType), string(c.reason))
		}
	}
}
