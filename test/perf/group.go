package main

import "math"

// group is the runs of all sides under one load.
type group struct {
	Shape    string  `json:"shape"`
	Says     string  `json:"says"`
	Load     string  `json:"load"`
	Nodes    int     `json:"nodes"`
	Zones    int     `json:"zones"`
	Existing int     `json:"existing"`
	Pods     int     `json:"pods"`
	Rate     float64 `json:"podsPerSecond,omitempty"`
	// Sides says what was run under each name.
	Sides      map[string]string `json:"sides"`
	Runs       []run             `json:"runs"`
	Failed     []string          `json:"failed,omitempty"`
	Comparison *comparison       `json:"comparison,omitempty"`
	// Unfit is how many pods that fit nowhere are there as well.
	Unfit int `json:"unfit,omitempty"`
	// Standings are what Berth is held to.
	Standings []standing `json:"standings,omitempty"`
}

// comparison is Berth beside kube-scheduler, in pairs of one round.
type comparison struct {
	// Equal says that both were shown to decide the same on the log of this
	// load: without, there are no ratios. Whole processes cannot show it: the
	// order in which informers hand over what was there is left to chance.
	Equal bool `json:"equal"`
	// Ratios are kube-scheduler's time or cost over Berth's, or Berth's rate
	// over kube-scheduler's: above 1, Berth is better.
	Ratios map[string]sample `json:"ratios,omitempty"`
}

// side returns the runs of one side, in the order of the rounds.
func (g *group) side(name string) []run {
	var runs []run
	for _, r := range g.Runs {
		if r.Side == name {
			runs = append(runs, r)
		}
	}
	return runs
}

// of summarizes one measure of one side.
func (g *group) of(name string, measure func(run) float64) sample {
	var values []float64
	for _, r := range g.side(name) {
		values = append(values, measure(r))
	}
	return summarize(values)
}

// The measures that are compared.
var (
	podsPerSecond  = func(r run) float64 { return r.PodsPerSecond }
	bindsPerSecond = func(r run) float64 { return r.BindsPerSecond }
	ownCPU         = func(r run) float64 { return r.CPU[scheduler] }
	allCPU         = func(r run) float64 { return r.CPU[scheduler] + r.CPU["kube-apiserver"] + r.CPU["etcd"] }
)

// pairs are the runs of two sides in the rounds that both came through.
func (g *group) pairs(a, b string) (as, bs []run) {
	for _, x := range g.side(a) {
		for _, y := range g.side(b) {
			if x.Round == y.Round {
				as, bs = append(as, x), append(bs, y)
			}
		}
	}
	return as, bs
}

// compare pairs Berth's runs with kube-scheduler's. alike says that the
// algorithms were shown to decide the same on this load.
func (g *group) compare(alike bool) {
	ours, theirs := g.pairs(berth, kube)
	if len(ours) == 0 {
		return
	}
	c := &comparison{Equal: alike, Ratios: map[string]sample{}}
	g.Comparison = c
	if !alike {
		return
	}
	pair := func(name string, ratio func(a, b run) float64) {
		var values []float64
		for i := range ours {
			// A run that was too short to be told from start-up has no rate.
			if v := ratio(ours[i], theirs[i]); v > 0 && !math.IsInf(v, 0) {
				values = append(values, v)
			}
		}
		if len(values) > 0 {
			c.Ratios[name] = summarize(values)
		}
	}
	// Under a fixed rate both have the same rate.
	if g.Load != "open" {
		pair("pods/s", func(a, b run) float64 { return podsPerSecond(a) / podsPerSecond(b) })
		pair("binds/s", func(a, b run) float64 { return bindsPerSecond(a) / bindsPerSecond(b) })
	} else {
		pair("latency p50", func(a, b run) float64 { return b.Latency.P50 / a.Latency.P50 })
		pair("latency p99", func(a, b run) float64 { return b.Latency.P99 / a.Latency.P99 })
	}
	pair("own CPU", func(a, b run) float64 { return ownCPU(b) / ownCPU(a) })
	pair("CPU with API server and etcd", func(a, b run) float64 { return allCPU(b) / allCPU(a) })
}
