package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
)

// bar is what Berth is held to beside another side under one load.
type bar struct {
	says string
	// ours is the side that is held to it; empty for Berth as it is shipped.
	ours string
	side string
	// loads are those it is for.
	loads []string
	// goal is what is wanted of the measure: at least, or at most.
	goal func(shape string) float64
	most bool
	// sure holds the end of the interval in which the mean lies, 95 times of 100,
	// to the goal, instead of the median.
	sure bool
	of   func(ours, theirs run) float64
}

// standing is a bar and what came out.
type standing struct {
	Says string  `json:"says"`
	Seen sample  `json:"seen"`
	Goal float64 `json:"goal"`
	// Most says that the goal is the most that may be seen, not the least.
	Most    bool `json:"most,omitempty"`
	Reached bool `json:"reached"`
	// Sure is the end of the 95 % interval of the mean that was held to the goal,
	// where it was.
	Sure float64 `json:"sure,omitempty"`
}

func always(goal float64) func(string) float64 { return func(string) float64 { return goal } }

// bars are all of them. A null binder that watches and tells nobody is the
// most that binding alone can reach; one that writes an Event a pod, the most
// that a scheduler can.
var bars = []bar{
	{
		says: "pods a second to the last bind, as a part of null+watch", side: "null+watch", loads: []string{"drain"}, goal: always(0.75),
		of: func(a, b run) float64 { return podsPerSecond(a) / podsPerSecond(b) },
	},
	{
		says: "pods a second to the last event, as a part of null+watch+events", side: "null+watch+events", loads: []string{"drain"}, goal: always(0.75),
		of: func(a, b run) float64 { return b.Told / a.Told },
	},
	{
		says: "ms of CPU a pod above null+watch+events", side: "null+watch+events", loads: []string{"drain"}, most: true,
		goal: func(shape string) float64 {
			if shape == "basic" {
				return 0.15
			}
			return 0.4
		},
		of: func(a, b run) float64 { return ownCPU(a) - ownCPU(b) },
	},
	{
		says: "pods a second beside a slow profile, as a part of those without its pods", ours: crowded, side: alone, loads: []string{"drain"},
		goal: always(0.8), of: func(a, b run) float64 { return podsPerSecond(a) / podsPerSecond(b) },
	},
	{
		says: "pods a second with nobody explained, as a part of those with who waits explained", side: unexplained, loads: []string{"burst", "crowd", "turns", "turns+crowd"},
		goal: always(1.05), most: true, sure: true, of: func(a, b run) float64 { return podsPerSecond(b) / podsPerSecond(a) },
	},
	{
		says: "pods a second with nobody explained, as a part of those with all explained", ours: recorded, side: unexplained, loads: []string{"burst", "crowd", "turns", "turns+crowd"},
		goal: always(1.05), most: true, sure: true, of: func(a, b run) float64 { return podsPerSecond(b) / podsPerSecond(a) },
	},
	{
		says: "latency p50 as a part of kube-scheduler's", side: kube, loads: []string{"open"}, goal: always(0.5), most: true,
		of: func(a, b run) float64 { return a.Latency.P50 / b.Latency.P50 },
	},
	{
		says: "latency p99 as a part of kube-scheduler's", side: kube, loads: []string{"open"}, goal: always(0.5), most: true,
		of: func(a, b run) float64 { return a.Latency.P99 / b.Latency.P99 },
	},
}

// stand compares Berth's runs with those that bars name, in pairs of a round.
func (g *group) stand() {
	for _, bar := range bars {
		if !slices.Contains(bar.loads, g.Load) {
			continue
		}
		ours, theirs := g.pairs(cmp.Or(bar.ours, berth), bar.side)
		var seen []float64
		for i := range ours {
			if v := bar.of(ours[i], theirs[i]); !math.IsInf(v, 0) && !math.IsNaN(v) {
				seen = append(seen, v)
			}
		}
		if len(seen) > 0 {
			s := made(bar.says, seen, bar.goal(g.Shape), bar.most)
			if bar.sure {
				s.beSure(seen)
			}
			g.Standings = append(g.Standings, s)
		}
	}
}

// keep compares the rate of a stream beside a crowd with that of the same
// stream alone.
func (g *group) keep(alone *group) {
	var seen []float64
	for _, crowded := range g.side(berth) {
		for _, free := range alone.side(berth) {
			if free.Round == crowded.Round && podsPerSecond(free) > 0 {
				seen = append(seen, podsPerSecond(crowded)/podsPerSecond(free))
			}
		}
	}
	if len(seen) > 0 {
		g.Standings = append(g.Standings, made("the rate that a stream keeps beside them", seen, 0.9, false))
	}
}

func made(says string, seen []float64, goal float64, most bool) standing {
	s := standing{Says: says, Seen: summarize(seen), Goal: goal, Most: most}
	s.Reached = s.Seen.Median >= goal != most || s.Seen.Median == goal
	return s
}

// beSure holds the far end of the 95 % interval of the mean to the goal. Fewer
// than two pairs make nobody sure.
func (s *standing) beSure(seen []float64) {
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

// print says what came out, in words.
func (s standing) print(out io.Writer) {
	wanted, verdict := "at least", ""
	if s.Most {
		wanted = "at most"
	}
	if !s.Reached {
		verdict = ": NOT REACHED"
	}
	seen := s.Seen.long()
	if s.Sure != 0 {
		seen += fmt.Sprintf(", the mean to %s with 95 %%", digits(s.Sure))
	}
	fmt.Fprintf(out, "  %s: %s (%s %s)%s\n", s.Says, seen, wanted, digits(s.Goal), verdict)
}
