package growth

import (
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// values returns n samples, ten seconds apart: a line with this slope per hour, and noise. Each
// value keeps this part of the noise of the one before.
func values(n int, perHour, noise, kept float64) (seconds, all []float64) {
	random := rand.New(rand.NewPCG(1, 2))
	last := 0.0
	for i := range n {
		last = kept*last + noise*random.NormFloat64()
		seconds = append(seconds, 10*float64(i))
		all = append(all, 50+perHour*float64(10*i)/3600+last)
	}
	return seconds, all
}

func TestFitFindsTheSlopeOfALine(t *testing.T) {
	for sentence, perHour := range map[string]float64{"a constant": 0, "one that grows": 6, "one that falls": -6} {
		t.Run(sentence, func(t *testing.T) {
			line, ok := Fit(values(200, perHour, 0, 0))
			if !ok || math.Abs(line.PerHour-perHour) > 1e-9 || line.High-line.Low > 1e-6 {
				t.Errorf("got %v and %t, want %v without noise", line, ok, perHour)
			}
		})
	}
}

// Of a hundred intervals 95 contain the slope, also where neighbours are alike.
func TestFitWidensTheIntervalByNoiseAndByAlikeNeighbours(t *testing.T) {
	for sentence, kept := range map[string]float64{"independent noise": 0, "noise that stays": 0.7} {
		t.Run(sentence, func(t *testing.T) {
			const runs, slope = 400, 4.0
			random := rand.New(rand.NewPCG(3, 4))
			within := 0
			for range runs {
				var seconds, all []float64
				last := 0.0
				for i := range 180 {
					last = kept*last + random.NormFloat64()
					seconds, all = append(seconds, 10*float64(i)), append(all, slope*float64(10*i)/3600+last)
				}
				if line, ok := Fit(seconds, all); ok && line.Low <= slope && slope <= line.High {
					within++
				}
			}
			if within < runs*90/100 || within > runs*99/100 {
				t.Errorf("%d of %d intervals contain the slope, want about 95 in a hundred", within, runs)
			}
		})
	}
}

func TestFitNeedsValues(t *testing.T) {
	if line, ok := Fit(values(leastValues-1, 1, 0, 0)); ok {
		t.Errorf("got %v of too few values", line)
	}
	if line, ok := Fit(make([]float64, 20), make([]float64, 20)); ok {
		t.Errorf("got %v of values at one time", line)
	}
}

func TestGrowsWhenTheWholeIntervalIsAboveTheBound(t *testing.T) {
	for sentence, c := range map[string]struct {
		line Line
		want bool
	}{
		"far above":             {Line{Low: 4, High: 6, Minutes: 30}, true},
		"above and below":       {Line{Low: 2, High: 6, Minutes: 30}, false},
		"falling":               {Line{Low: -6, High: -4, Minutes: 30}, false},
		"far above, too little": {Line{Low: 4, High: 6, Minutes: 10}, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			if got := c.line.Grows(3); got != c.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestJoinWeighsRunsByTheirIntervals(t *testing.T) {
	narrow := Line{PerHour: 1, Low: 0.9, High: 1.1, Mean: 50, Minutes: 30}
	wide := Line{PerHour: 9, Low: 4, High: 14, Mean: 70, Minutes: 30}
	joined, ok := Join([]Line{narrow, wide})
	if !ok || joined.PerHour < 1 || joined.PerHour > 1.01 || joined.Mean != 60 || joined.Minutes != 60 {
		t.Errorf("got %+v and %t, want nearly the narrow one", joined, ok)
	}
	if joined.High-joined.Low > narrow.High-narrow.Low {
		t.Errorf("two runs say less than one: %v", joined)
	}
	if joined, ok := Join(nil); ok {
		t.Errorf("no run gives %v", joined)
	}
}

func TestLinesLeaveOutTheWarmUp(t *testing.T) {
	var samples []Sample
	for i := range 140 { // 23 minutes
		s := Sample{Seconds: float64(10 * i), Heap: 60, Goroutines: 300}
		if i < 48 { // caches that fill
			s.Heap = 10 + float64(i)
		}
		s.Descriptors = float64(i) // a leak: six a minute
		samples = append(samples, s)
	}
	lines := Lines(samples)
	if l := lines["heap after GC"]; l.PerHour != 0 {
		t.Errorf("heap: %v, want none after the warm-up", l)
	}
	want := []string{"descriptors: grows by +360.00 (+360.00 to +360.00) an hour, and may grow by 2"}
	if diff := cmp.Diff(want, Findings(lines)); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
}

func TestNewSeriesAreThoseSinceTheWarmUp(t *testing.T) {
	var samples []Sample
	for i := range 140 {
		s := Sample{Seconds: float64(10 * i), families: map[string]float64{"filled": 9, "same": 1}}
		if i < 40 {
			s.families = map[string]float64{"filled": float64(i) / 5, "same": 1}
		}
		if i > 100 {
			s.families = map[string]float64{"filled": 8, "same": 1, "new": 2, "a": 3}
		}
		samples = append(samples, s)
	}
	if got, want := NewSeries(samples), "a +3, new +2"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := NewSeries(samples[:1]); got != "" {
		t.Errorf("got %q of one sample", got)
	}
}

func TestTextsOfAManagerAreRead(t *testing.T) {
	heap, err := heapAlloc("heap profile: 3: 5 [1: 2] @ heap/1048576\n\n# runtime.MemStats\n# Alloc = 1\n# HeapAlloc = 2097152\n")
	if err != nil || heap != 2 {
		t.Errorf("heap %v and %v, want 2 MiB", heap, err)
	}
	if _, err := heapAlloc("heap profile"); err == nil {
		t.Error("a profile without HeapAlloc is accepted")
	}
	stacks := strings.Join([]string{
		"goroutine profile: total 42\n3 @ 0x1 0x2\n#\t0x1\tk8s.io/client-go/tools/cache.(*processorListener).run+0x1\tf.go:1",
		"2 @ 0x3\n#\t0x3\tk8s.io/client-go/tools/cache.(*processorListener).pop+0x1\tf.go:1",
		"1 @ 0x4\n#\t0x4\tk8s.io/client-go/tools/cache.(*processorListener).run.func1+0x1\tf.go:1\n",
	}, "\n\n")
	total, handlers, err := goroutines(stacks)
	if err != nil || total != 42 || handlers != 4 {
		t.Errorf("%v goroutines, %v handlers, %v; want 42 and 4", total, handlers, err)
	}
	found := series([]byte("# HELP a b\n# TYPE a counter\na{b=\"c\"} 1\na{b=\"d\"} 1\nb 2\n\n"))
	if diff := cmp.Diff(map[string]float64{"a": 2, "b": 1}, found); diff != "" {
		t.Errorf("series (-want,+got):\n%s", diff)
	}
	resident, open, err := process(os.Getpid())
	if err != nil {
		t.Skip(err)
	}
	if resident <= 0 || open < 3 {
		t.Errorf("this process has %v MiB and %v descriptors", resident, open)
	}
}
