package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestQuantilesAreValuesThatSoManyDoNotExceed(t *testing.T) {
	var all []time.Duration
	for i := range 200 {
		all = append(all, time.Duration(200-i)*time.Millisecond)
	}
	want := &quantiles{P50: 100, P90: 180, P99: 198, Max: 200}
	if diff := cmp.Diff(want, spread(all)); diff != "" {
		t.Errorf("of 1 to 200 ms (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&quantiles{P50: 7, P90: 7, P99: 7, Max: 7}, spread([]time.Duration{7 * time.Millisecond})); diff != "" {
		t.Errorf("of one (-want +got):\n%s", diff)
	}
}

func TestASampleTellsMedianAndEnds(t *testing.T) {
	for sentence, c := range map[string]struct {
		values []float64
		want   sample
	}{
		"an odd number":  {[]float64{3, 1, 2}, sample{Median: 2, Min: 1, Max: 3, N: 3}},
		"an even number": {[]float64{4, 1, 2, 9}, sample{Median: 3, Min: 1, Max: 9, N: 4}},
		"none":           {nil, sample{}},
	} {
		t.Run(sentence, func(t *testing.T) {
			if diff := cmp.Diff(c.want, summarize(c.values)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestASpeedUpIsToldOfEqualDecisionsOnly(t *testing.T) {
	runs := func(hash string, micros ...float64) (all []replay) {
		for _, m := range micros {
			all = append(all, replay{Pods: 10, Micros: m, Hash: hash})
		}
		return all
	}
	for sentence, c := range map[string]struct {
		theirs []replay
		want   string
	}{
		"equal hashes give a ratio of each pair": {runs("a", 40, 60), "berth 15.0 µs a pod, kube-scheduler 50.0 µs, 3.50× (3.00–4.00, 2 pairs)"},
		"unequal hashes give none":               {runs("b", 40, 60), "REFUSED: the decisions differ (sha256 a and b)"},
	} {
		t.Run(sentence, func(t *testing.T) {
			c1 := &contest{Shape: "basic", Pods: 10, Runs: map[string][]replay{berth: runs("a", 10, 20), kube: c.theirs}}
			c1.judge(c.theirs)
			if got := c1.verdict(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			var out bytes.Buffer
			(&report{Algorithm: []*contest{c1}}).tables(&out)
			if told := strings.Contains(out.String(), "×"); told != c1.Equal {
				t.Errorf("equal: %t, but the table says:\n%s", c1.Equal, out.String())
			}
		})
	}
}

func TestProcessesAreComparedInPairsOnceTheyAreShownToDecideAlike(t *testing.T) {
	made := func(side string, round int, rate, cpu float64) run {
		return run{Side: side, Round: round, Load: "drain", PodsPerSecond: rate, BindsPerSecond: rate, CPU: map[string]float64{scheduler: cpu}}
	}
	g := &group{Shape: "basic", Load: "drain", Runs: []run{
		made(berth, 1, 200, 1), made(kube, 1, 100, 2), made(kube, 2, 100, 4), made(berth, 2, 300, 1),
		made(berth, 3, 900, 1), // kube-scheduler's run of this round failed
	}}
	g.compare(false)
	if len(g.Comparison.Ratios) > 0 {
		t.Errorf("ratios without equality: %v", g.Comparison.Ratios)
	}
	g.compare(true)
	want := map[string]sample{
		"pods/s":                       {Median: 2.5, Min: 2, Max: 3, N: 2},
		"binds/s":                      {Median: 2.5, Min: 2, Max: 3, N: 2},
		"own CPU":                      {Median: 3, Min: 2, Max: 4, N: 2},
		"CPU with API server and etcd": {Median: 3, Min: 2, Max: 4, N: 2},
	}
	if diff := cmp.Diff(want, g.Comparison.Ratios); diff != "" {
		t.Errorf("ratios (-want +got):\n%s", diff)
	}
}
