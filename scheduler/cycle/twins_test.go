package cycle_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/scheduler/sandbox/log"
	"github.com/berthdev/berth/test/replay/generate"
	"github.com/berthdev/berth/test/replay/run"
)

// strangers are plugins that say to the remembering twin nothing of what they
// read: one of every kind.
var opaquePlugins = []string{"NodePorts", "TaintToleration", "PodTopologySpread", "ImageLocality", "NodeResourcesBalancedAllocation"}

// twin is a scheduler with a cluster of its own.
type scheduler struct {
	*run.Berth
	replay *run.World
}

func newScheduler(t *testing.T, config run.Config) *scheduler {
	t.Helper()
	berth, err := run.NewBerth(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return &scheduler{berth, run.NewWorld(berth)}
}

// do lets one thing happen, and returns the line of an attempt.
func (w *scheduler) do(t *testing.T, op log.Op) (*run.Outcome, string) {
	t.Helper()
	op.Object = op.Object.DeepCopyObject().(log.Object)
	outcome, err := w.replay.Do(op)
	if err != nil {
		t.Fatal(err)
	}
	if outcome == nil {
		return nil, ""
	}
	line, err := outcome.Line()
	if err != nil {
		t.Fatal(err)
	}
	return outcome, string(line)
}

// What is remembered, counted and judged many nodes at a time is what every
// plugin says about every node: node, reasons and each plugin's score.
func TestTheCacheEqualsTheReference(t *testing.T) {
	const histories, attempts, least = 60, 40, 1000
	var remembered uint64
	for seed := range uint64(histories) {
		g := generate.New(seed, attempts)
		if seed%4 == 3 {
			g = generate.NewCrowded(seed, attempts)
		}
		config := g.Config()
		if seed%3 == 1 {
			config.Opaque = opaquePlugins
		}
		remembering := newScheduler(t, config)
		config.Plain, config.Opaque = true, nil
		plain := newScheduler(t, config)
		for n := 1; ; n++ {
			op, more := g.Next()
			if !more {
				break
			}
			_, got := remembering.do(t, op)
			outcome, want := plain.do(t, op)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("seed %d, op %d (-plainly, +remembering):\n%s", seed, n, diff)
			}
			if outcome != nil {
				g.Tell(outcome)
			}
		}
		remembered += remembering.EquivalenceCache().Stats().Cached
	}
	if remembered < least {
		t.Errorf("%d attempts were made from memory, which shows too little; want %d", remembered, least)
	}
	t.Log(fmt.Sprint(remembered), "attempts from memory")
}
