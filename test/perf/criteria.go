package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"
)

// criterion is a goal for Berth compared with another side under one load.
type criterion struct {
	description string
	// ours is the side that has the goal; empty for Berth with its default profile.
	ours  string
	other string
	// loads are those that it applies to.
	loads []string
	// goal is the least value of the measure, or the most where most is set.
	goal func(shape string) float64
	most bool
	// sure compares the far end of the 95 % confidence interval of the mean with the goal,
	// instead of the median.
	sure    bool
	measure func(ours, theirs run) float64
}

// criterionResult is a criterion with the measured values.
type criterionResult struct {
	Description string  `json:"description"`
	Seen        sample  `json:"seen"`
	Goal        float64 `json:"goal"`
	// Most says that the goal is the most that may be measured, not the least.
	Most    bool `json:"most,omitempty"`
	Reached bool `json:"reached"`
	// Sure is the end of the 95 % confidence interval of the mean, where it was compared with
	// the goal.
	Sure float64 `json:"sure,omitempty"`
}

// leastOfNull is the least part of the null binder's rate that Berth reaches: with pods of many
// shapes it decides more.
func leastOfNull(shape string) float64 {
	if shape == "mixed" || shape == "thousand" {
		return 0.8
	}
	return 0.85
}

func always(goal float64) func(string) float64 { return func(string) float64 { return goal } }

// drains are the loads that begin with a start on pending pods.
var drains = []string{"drain", "alternating+drain"}

// criteria are all of them. A null binder with informers and without Events is the most that
// binding alone can reach; one that writes an Event for each pod, the most that a scheduler
// can.
var criteria = []criterion{
	{
		description: "pods/s to the last bind, relative to null+watch", other: "null+watch", loads: drains, goal: leastOfNull,
		measure: func(a, b run) float64 { return podsPerSecond(a) / podsPerSecond(b) },
	},
	{
		description: "pods/s to the last Event, relative to null+watch+events", other: "null+watch+events", loads: drains, goal: always(0.95),
		measure: func(a, b run) float64 { return b.ToLastEvent / a.ToLastEvent },
	},
	{
		description: "ms of CPU per pod more than null+watch+events", other: "null+watch+events", loads: drains, most: true,
		goal: always(0.12), measure: func(a, b run) float64 { return ownCPU(a) - ownCPU(b) },
	},
	{
		description: "CPU of API server and etcd per pod, relative to null+watch+events", other: "null+watch+events", loads: drains, most: true,
		goal: always(1.1), measure: func(a, b run) float64 { return serverCPU(a) / serverCPU(b) },
	},
	{
		description: "pods/s to the last bind with leader election, relative to null+watch", ours: elected, other: "null+watch", loads: drains, goal: leastOfNull,
		measure: func(a, b run) float64 { return podsPerSecond(a) / podsPerSecond(b) },
	},
	{
		description: "pods/s to the last Event with leader election, relative to null+watch+events", ours: elected, other: "null+watch+events", loads: drains, goal: always(0.95),
		measure: func(a, b run) float64 { return b.ToLastEvent / a.ToLastEvent },
	},
	{
		description: "time to the first bind, relative to null+watch+kinds", other: nullOfAllKinds, loads: []string{"start"}, goal: always(1.25), most: true,
		measure: func(a, b run) float64 { return a.StartUp / b.StartUp },
	},
	{
		description: "time to the first bind, relative to kube-scheduler's", other: kube, loads: []string{"start"}, goal: always(1), most: true,
		measure: func(a, b run) float64 { return a.StartUp / b.StartUp },
	},
	{
		description: "pods/s beside pods of a slow profile, relative to none", ours: slowProfileWithPods, other: slowProfileAlone, loads: []string{"drain"},
		goal: always(0.8), measure: func(a, b run) float64 { return podsPerSecond(a) / podsPerSecond(b) },
	},
	{
		description: "pods/s without explanations, relative to explanations of refused pods", other: unexplained, loads: []string{"burst", "burst+unfit", "alternating", "alternating+unfit"},
		goal: always(1.05), most: true, sure: true, measure: func(a, b run) float64 { return podsPerSecond(b) / podsPerSecond(a) },
	},
	{
		description: "pods/s without explanations, relative to explanations of all pods", ours: recorded, other: unexplained, loads: []string{"burst", "burst+unfit", "alternating", "alternating+unfit"},
		goal: always(1.05), most: true, sure: true, measure: func(a, b run) float64 { return podsPerSecond(b) / podsPerSecond(a) },
	},
	{
		description: "CPU of the start, relative to null+watch+kinds", other: nullOfAllKinds, loads: append([]string{"burst", "open", "start"}, drains...), most: true,
		goal: always(1.25), measure: func(a, b run) float64 { return startUpCPU(a) / startUpCPU(b) },
	},
	{
		description: "latency p50 relative to null+watch", other: "null+watch", loads: []string{"open"}, goal: always(1.1), most: true,
		measure: func(a, b run) float64 { return a.Latency.P50 / b.Latency.P50 },
	},
	{
		description: "latency p99 relative to null+watch", other: "null+watch", loads: []string{"open"}, goal: always(1.5), most: true,
		measure: func(a, b run) float64 { return a.Latency.P99 / b.Latency.P99 },
	},
	{
		description: "latency p50 relative to kube-scheduler's", other: kube, loads: []string{"open"}, goal: always(0.5), most: true,
		measure: func(a, b run) float64 { return a.Latency.P50 / b.Latency.P50 },
	},
	{
		description: "latency p99 relative to kube-scheduler's", other: kube, loads: []string{"open"}, goal: always(0.5), most: true,
		measure: func(a, b run) float64 { return a.Latency.P99 / b.Latency.P99 },
	},
}

// checkCriteria compares Berth's runs with those of other sides, in pairs of one round.
func (g *group) checkCriteria() {
	for _, bar := range criteria {
		if !slices.Contains(bar.loads, g.Load) {
			continue
		}
		ours, theirs := g.pairs(cmp.Or(bar.ours, berth), bar.other)
		var seen []float64
		for i := range ours {
			if v := bar.measure(ours[i], theirs[i]); !math.IsInf(v, 0) && !math.IsNaN(v) {
				seen = append(seen, v)
			}
		}
		if len(seen) > 0 {
			s := newResult(bar.description, seen, bar.goal(g.Shape), bar.most)
			if bar.sure {
				s.useInterval(seen)
			}
			g.Criteria = append(g.Criteria, s)
		}
	}
}

// keptRates returns, by round, which part of its rate under the other load a side keeps.
func (g *group) keptRates(other *group, side string) map[int]float64 {
	parts := map[int]float64{}
	for _, with := range g.side(side) {
		for _, without := range other.side(side) {
			if with.Round == without.Round && podsPerSecond(without) > 0 {
				parts[with.Round] = podsPerSecond(with) / podsPerSecond(without)
			}
		}
	}
	return parts
}

// checkStreamRate compares the rate beside unfit pods with the rate without them.
func (g *group) checkStreamRate(alone *group) {
	if seen := slices.Collect(maps.Values(g.keptRates(alone, berth))); len(seen) > 0 {
		g.Criteria = append(g.Criteria, newResult("pods/s beside unfit pods, relative to none", seen, 0.9, false))
	}
}

func newResult(description string, seen []float64, goal float64, most bool) criterionResult {
	s := criterionResult{Description: description, Seen: summarize(seen), Goal: goal, Most: most}
	s.Reached = s.Seen.Median >= goal != most || s.Seen.Median == goal
	return s
}

// useInterval compares the far end of the 95 % confidence interval of the mean with the goal.
// Fewer than two pairs do not reach it.
func (s *criterionResult) useInterval(seen []float64) {
	s.Reached = false
	if len(seen) < 2 {
		return
	}
	mean, half := interval(seen)
	if !s.Most {
		half = -half
	}
	s.Sure = mean + half
	s.Reached = s.Sure <= s.Goal == s.Most
}

// print prints the values and the goal.
func (s criterionResult) print(out io.Writer) {
	wanted, verdict := "at least", ""
	if s.Most {
		wanted = "at most"
	}
	if !s.Reached {
		verdict = ": NOT REACHED"
	}
	seen := s.Seen.long()
	if s.Sure != 0 {
		seen += fmt.Sprintf(", 95 %% confidence limit of the mean %s", digits(s.Sure))
	}
	fmt.Fprintf(out, "  %s: %s (%s %s)%s\n", s.Description, seen, wanted, digits(s.Goal), verdict)
}

// student has the 0.975 quantiles of Student's distribution with 1, 2, ... degrees of freedom;
// with more, those of the normal distribution are used.
var student = []float64{
	12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
	2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
}

// interval returns the mean of values, and half the width of its 95 % confidence interval. It
// needs at least two values.
func interval(seen []float64) (mean, half float64) {
	n := float64(len(seen))
	for _, v := range seen {
		mean += v / n
	}
	squares := 0.0
	for _, v := range seen {
		squares += (v - mean) * (v - mean)
	}
	t := 1.96
	if df := len(seen) - 1; df <= len(student) {
		t = student[df-1]
	}
	return mean, t * math.Sqrt(squares/(n-1)/n)
}

// quantiles are of durations, in milliseconds.
type quantiles struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func quantilesOf(durations []time.Duration) *quantiles {
	sorted := slices.Sorted(slices.Values(durations))
	if len(sorted) == 0 {
		return nil
	}
	// The least value that is not below this percentage of the durations.
	at := func(percent int) float64 { return millis(sorted[max(0, (len(sorted)*percent+99)/100-1)]) }
	return &quantiles{P50: at(50), P90: at(90), P99: at(99), Max: at(100)}
}

// sample summarizes several measurements of one thing.
type sample struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	N      int     `json:"n"`
}

func summarize(values []float64) sample {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return sample{}
	}
	return sample{Median: (sorted[(n-1)/2] + sorted[n/2]) / 2, Min: sorted[0], Max: sorted[n-1], N: n}
}
