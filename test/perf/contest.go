package main

import (
	"fmt"
	"slices"
)

// contest is both algorithms on one log.
type contest struct {
	Shape    string `json:"shape"`
	Says     string `json:"says"`
	Nodes    int    `json:"nodes"`
	Zones    int    `json:"zones"`
	Existing int    `json:"existing"`
	Pods     int    `json:"pods"`
	// Runs are by side, in the order of the rounds.
	Runs map[string][]replay `json:"runs"`
	// Solo says that kube-scheduler had no part in it.
	Solo bool `json:"solo,omitempty"`
	// Equal says that every run of both sides decided the same.
	Equal bool `json:"equal"`
	// Ratio is how many times longer kube-scheduler takes for a pod, round by
	// round; only when Equal. Goal is what it shall be at least, 0 where nobody
	// said.
	Ratio *sample `json:"ratio,omitempty"`
	Goal  float64 `json:"goal,omitempty"`
}

// judge compares the runs; twins are those of kube-scheduler that had the same
// to decide as Berth.
func (c *contest) judge(twins []replay) {
	if c.Solo {
		return
	}
	hashes := map[string]bool{}
	for _, r := range slices.Concat(c.Runs[berth], twins) {
		hashes[r.Hash] = true
	}
	if c.Equal = len(hashes) == 1; !c.Equal {
		return
	}
	var ratios []float64
	for i, ours := range c.Runs[berth] {
		ratios = append(ratios, c.Runs[kube][i].Micros/ours.Micros)
	}
	ratio := summarize(ratios)
	c.Ratio = &ratio
}

// verdict says what came out in a line.
func (c *contest) verdict() string {
	switch {
	case c.Solo:
		m := c.median(berth)
		return fmt.Sprintf("%s %.1f µs a pod, %.1f s in all, %.0f MiB", berth, m.Micros, m.Seconds, m.Peak)
	case !c.Equal:
		return fmt.Sprintf("REFUSED: the decisions differ (sha256 %.12s and %.12s)", c.Runs[berth][0].Hash, c.Runs[kube][0].Hash)
	}
	return fmt.Sprintf("%s %.1f µs a pod, %s %.1f µs, %s", berth, c.median(berth).Micros, kube, c.median(kube).Micros, c.Ratio.times())
}

// reached says whether the goal is.
func (c *contest) reached() string {
	switch {
	case c.Goal == 0 || c.Ratio == nil:
		return ""
	case c.Ratio.Median < c.Goal:
		return fmt.Sprintf("BELOW %.0f", c.Goal)
	}
	return fmt.Sprintf("%.0f", c.Goal)
}

// median returns the medians of a side's runs.
func (c *contest) median(name string) replay {
	pick := func(of func(replay) float64) float64 {
		var values []float64
		for _, r := range c.Runs[name] {
			values = append(values, of(r))
		}
		return summarize(values).Median
	}
	return replay{
		Pods:    c.Pods,
		Micros:  pick(func(r replay) float64 { return r.Micros }),
		Allocs:  pick(func(r replay) float64 { return r.Allocs }),
		Bytes:   pick(func(r replay) float64 { return r.Bytes }),
		Seconds: pick(func(r replay) float64 { return r.Seconds }),
		Peak:    pick(func(r replay) float64 { return r.Peak }),
	}
}

// times prints a ratio with its spread.
func (s sample) times() string {
	if s.N < 2 {
		return fmt.Sprintf("%.2f×", s.Median)
	}
	return fmt.Sprintf("%.2f× (%.2f–%.2f, %d pairs)", s.Median, s.Min, s.Max, s.N)
}
