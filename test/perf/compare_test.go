package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestQuantiles(t *testing.T) {
	var all []time.Duration
	for i := range 200 {
		all = append(all, time.Duration(200-i)*time.Millisecond)
	}
	want := &quantiles{P50: 100, P90: 180, P99: 198, Max: 200}
	if diff := cmp.Diff(want, quantilesOf(all)); diff != "" {
		t.Errorf("of 1 to 200 ms (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&quantiles{P50: 7, P90: 7, P99: 7, Max: 7}, quantilesOf([]time.Duration{7 * time.Millisecond})); diff != "" {
		t.Errorf("of one (-want +got):\n%s", diff)
	}
}

func TestASampleHasMedianAndRange(t *testing.T) {
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

func TestOnlyEqualDecisionsHaveARatio(t *testing.T) {
	runs := func(hash string, micros ...float64) (all []replayResult) {
		for _, m := range micros {
			all = append(all, replayResult{Pods: 10, Micros: m, Hash: hash})
		}
		return all
	}
	for sentence, c := range map[string]struct {
		theirs []replayResult
		want   string
	}{
		"equal hashes give a ratio for each pair": {runs("a", 40, 60), "berth 15.0 µs a pod, kube-scheduler 50.0 µs, 3.50× (3.00–4.00, 2 pairs)"},
		"unequal hashes give no ratio":            {runs("b", 40, 60), "REFUSED: the decisions differ (sha256 a and b)"},
	} {
		t.Run(sentence, func(t *testing.T) {
			c1 := &algorithmResult{Shape: "basic", Pods: 10, Runs: map[string][]replayResult{berth: runs("a", 10, 20), kube: c.theirs}}
			c1.compare(c.theirs)
			if got := c1.summary(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			var out bytes.Buffer
			(&report{Algorithm: []*algorithmResult{c1}}).tables(&out)
			if printed := strings.Contains(out.String(), "×"); printed != c1.Equal {
				t.Errorf("equal: %t, but the table says:\n%s", c1.Equal, out.String())
			}
		})
	}
}

func TestProcessesAreComparedInPairsAfterEqualDecisions(t *testing.T) {
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

func TestInterval(t *testing.T) {
	for sentence, c := range map[string]struct {
		seen       []float64
		mean, half float64
	}{
		"equal values have no width":             {[]float64{1, 1, 1}, 1, 0},
		"ten values use nine degrees of freedom": {[]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 5.5, 2.1658},
		"two values have a wide interval":        {[]float64{0.9, 1.1}, 1, 1.2706},
	} {
		t.Run(sentence, func(t *testing.T) {
			mean, half := interval(c.seen)
			if math.Abs(mean-c.mean) > 1e-4 || math.Abs(half-c.half) > 1e-3 {
				t.Errorf("got %v ± %v, want %v ± %v", mean, half, c.mean, c.half)
			}
		})
	}
}

func TestASureCriterionComparesTheEndOfTheInterval(t *testing.T) {
	for sentence, c := range map[string]struct {
		seen    []float64
		reached bool
	}{
		"a mean that is below with 95 % confidence is reached": {[]float64{1.01, 1.02, 1.00, 1.01}, true},
		"a mean that may be above is not reached":              {[]float64{0.90, 1.12, 0.95, 1.11}, false},
		"one pair alone is not reached":                        {[]float64{1.00}, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newResult("", c.seen, 1.05, true)
			s.useInterval(c.seen)
			if s.Reached != c.reached {
				t.Errorf("%v: reached is %v, want %v (compared %v)", c.seen, s.Reached, c.reached, s.Sure)
			}
		})
	}
}

func TestTurnsLeaveOutTheTimeInBetween(t *testing.T) {
	start := time.Unix(0, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	own := turns{{at(0), at(2)}, {at(5), at(6)}, {at(9), at(12)}}
	for sentence, c := range map[string]struct{ then, want int }{
		"before the first turn":             {-1, 0},
		"within the first turn":             {1, 1},
		"between two turns":                 {4, 2},
		"within a later turn":               {10, 4},
		"after the last":                    {20, 6},
		"at the end of one":                 {6, 3},
		"at the beginning of one":           {9, 3},
		"at the beginning of the first one": {0, 0},
	} {
		t.Run(sentence, func(t *testing.T) {
			if got, want := own.until(at(c.then)), time.Duration(c.want)*time.Second; got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

func TestSharesAreOfTheRateOfABurst(t *testing.T) {
	burst := func(shape string, rates ...float64) *group {
		g := &group{Shape: shape, Load: "burst"}
		for _, rate := range rates {
			g.Runs = append(g.Runs, run{Side: berth, PodsPerSecond: 2 * rate, Took: 5, ToLastEvent: 10})
		}
		return g
	}
	for sentence, c := range map[string]struct {
		shares []float64
		groups []*group
		want   []float64
	}{
		"no shares: the rates":                        {nil, nil, []float64{150}},
		"the median of the bursts of the shape":       {[]float64{0.5, 0.95}, []*group{burst("mixed", 20), burst("basic", 100, 300, 200)}, []float64{100, 190}},
		"at least one pod a second":                   {[]float64{0.1}, []*group{burst("basic", 2)}, []float64{1}},
		"none where no burst of the shape was bound":  {[]float64{0.5}, []*group{burst("mixed", 20), burst("basic")}, nil},
		"other loads of the shape give no rate to it": {[]float64{0.5}, []*group{{Shape: "basic", Load: "drain", Runs: []run{{Side: berth, PodsPerSecond: 9, Took: 1, ToLastEvent: 1}}}}, nil},
	} {
		t.Run(sentence, func(t *testing.T) {
			b := &bench{options: options{rates: []float64{150}, shares: c.shares}, out: io.Discard, report: report{Groups: c.groups}}
			if diff := cmp.Diff(c.want, b.ratesOf(shapes[0])); diff != "" {
				t.Errorf("rates (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatANodeOrAPodMoreCostsIsTheSlopeBetweenTwoClusters(t *testing.T) {
	cluster := func(nodes, existing int, ours, theirs float64) *group {
		g := &group{Shape: "basic", Load: start, Nodes: nodes, Existing: existing}
		for side, mib := range map[string]float64{berth: ours, kube: theirs} {
			g.Runs = append(g.Runs, run{Side: side, Round: 1, Peak: map[string]float64{scheduler: mib}, Heap: mib / 2})
		}
		return g
	}
	r := &report{Groups: []*group{
		{Shape: "basic", Load: "drain"},
		cluster(1000, 5000, 50, 60), cluster(2000, 5000, 54, 80), cluster(1000, 15000, 70, 85), cluster(2000, 15000, 74, 105),
	}}
	r.compareSizes("basic")
	var seen []string
	for _, g := range r.Groups {
		for _, result := range g.Criteria {
			seen = append(seen, fmt.Sprintf("%d nodes, %d pods: %s: %.2f, reached: %v", g.Nodes, g.Existing, result.Description, result.Seen.Median, result.Reached))
		}
		seen = append(seen, g.Slopes...)
	}
	want := []string{
		"2000 nodes, 5000 pods: peak memory of a node more, relative to kube-scheduler's: 0.20, reached: true",
		"2000 nodes, 5000 pods: live heap of a node more, relative to kube-scheduler's: 0.20, reached: true",
		"peak memory of a node more: berth 4.10 KiB, kube-scheduler 20.5 KiB",
		"live heap of a node more: berth 2.05 KiB, kube-scheduler 10.2 KiB",
		"1000 nodes, 15000 pods: peak memory of a pod more, relative to kube-scheduler's: 0.80, reached: false",
		"1000 nodes, 15000 pods: live heap of a pod more, relative to kube-scheduler's: 0.80, reached: false",
		"peak memory of a pod more: berth 2.05 KiB, kube-scheduler 2.56 KiB",
		"live heap of a pod more: berth 1.02 KiB, kube-scheduler 1.28 KiB",
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("compared (-want +got):\n%s", diff)
	}
}

func TestARateWhileNodesChangeIsComparedWithWhatTheNullBinderKeeps(t *testing.T) {
	burst := func(load string, ours, null float64) *group {
		return &group{Shape: "basic", Load: load, Runs: []run{{Side: berth, Round: 1, PodsPerSecond: ours}, {Side: "null+watch", Round: 1, PodsPerSecond: null}}}
	}
	for sentence, c := range map[string]struct {
		ours, null float64
		want       float64
	}{
		"both lose a quarter":       {300, 375, 1},
		"Berth loses a fifth alone": {320, 500, 0.8},
	} {
		t.Run(sentence, func(t *testing.T) {
			r := &report{Groups: []*group{burst("burst", 400, 500), burst(burstWithChanges, c.ours, c.null)}}
			r.compareBursts()
			results := r.Groups[1].Criteria
			if len(r.Groups[0].Criteria) > 0 || len(results) != 1 || results[0].Seen.Median != c.want || results[0].Reached != (c.want >= 0.9) {
				t.Errorf("%+v, want %v", results, c.want)
			}
		})
	}
}
