package main

import (
	"flag"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/berthdev/berth/scheduler/sandbox/log"
	"github.com/berthdev/berth/test/exactness/oracle/compare"
	"github.com/berthdev/berth/test/replay/generate"
	"github.com/berthdev/berth/test/replay/run"
)

var (
	decisions = flag.Int("decisions", 20000, "how many generated decisions are compared")
	firstSeed = flag.Uint64("seed", 1, "the seed of the first history")
	plainly   = flag.Uint64("plainly", 4, "one in so many histories is decided without what Berth remembers and counts")
	least     = flag.Int("least", 5, "how often each plugin must have refused, and have changed a winner, and have decided by each feature")
)

// perHistory is how many attempts one generated history has.
const perHistory = 100

// The histories of differences that were found once. They may not come back.
func TestCases(t *testing.T) {
	for _, config := range []run.Config{{}, {Preempt: true}} {
		testCases(t, casesOf(config), config.Preempt)
	}
}

// casesOf is where histories are kept, those with preemption apart.
func casesOf(config run.Config) string {
	if config.Preempt {
		return "cases/preempt"
	}
	return "cases"
}

// ways are how Berth goes about a history.
var ways = []struct {
	name   string
	plain  bool
	opaque []string
}{
	{name: "remembering"},
	{name: "plainly", plain: true},
	{name: "among strangers", opaque: strangers},
}

// strangers are plugins that may be made opaque: of every kind that there is.
var strangers = []string{
	"NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit", "PodTopologySpread",
	"InterPodAffinity", "NodeResourcesBalancedAllocation", "ImageLocality",
}

// way is how a history of this seed is gone about: one in so many plainly, and
// of the others every third with some strangers.
func way(seed uint64) (plain bool, opaque []string) {
	switch {
	case seed%*plainly == 0:
		return true, nil
	case seed%3 == 0:
		for i, name := range strangers {
			if seed/3>>i&1 == 1 {
				opaque = append(opaque, name)
			}
		}
	}
	return false, opaque
}

func testCases(t *testing.T, dir string, preempt bool) {
	cases, err := compare.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			c.Config.Preempt = preempt
			for _, way := range ways {
				c.Config.Plain, c.Config.Opaque = way.plain, way.opaque
				difference, err := compare.Run(c.Config, &compare.Recorded{Ops: c.Ops}, nil)
				if err != nil {
					t.Fatal(err)
				}
				if difference != nil {
					t.Errorf("%s/%s.jsonl, line %d, %s:\n%v", dir, c.Name, c.Ops[difference.Op].Line, way.name, difference)
				}
			}
		})
	}
}

// Berth decides as kube-scheduler does, whatever the cluster is like.
func TestGeneratedDecisions(t *testing.T) {
	covered := compareAll(t, *decisions, func(seed uint64) *generate.Generator { return generate.New(seed, perHistory) })
	if t.Failed() {
		return
	}
	for _, short := range slices.Concat(covered.Short(*least), covered.Unused(*least), covered.Still(*least)) {
		t.Errorf("the histories prove too little: %s", short)
	}
	if covered.Refused*100 < covered.Attempts*15 {
		t.Errorf("the histories prove too little: %d of %d attempts were refused, want 15 %%", covered.Refused, covered.Attempts)
	}
}

// compareAll compares so many decisions of generated histories, from the first
// seed on, and says what they were about.
func compareAll(t *testing.T, decisions int, history func(seed uint64) *generate.Generator) *compare.Coverage {
	covered := compare.NewCoverage()
	var (
		mu    sync.Mutex
		work  sync.WaitGroup
		taken atomic.Uint64
	)
	histories := uint64((decisions + perHistory - 1) / perHistory)
	for range runtime.GOMAXPROCS(0) {
		work.Go(func() {
			for i := taken.Add(1) - 1; i < histories && !t.Failed(); i = taken.Add(1) - 1 {
				mine := compare.NewCoverage()
				oneHistory(t, *firstSeed+i, history(*firstSeed+i), mine)
				mu.Lock()
				covered.Add(mine)
				mu.Unlock()
			}
		})
	}
	work.Wait()
	t.Logf("seeds %d to %d: %v", *firstSeed, *firstSeed+histories-1, covered)
	return covered
}

// oneHistory compares one; a difference is shrunk and kept as a case.
func oneHistory(t *testing.T, seed uint64, g *generate.Generator, covered *compare.Coverage) {
	config := g.Config()
	config.Plain, config.Opaque = way(seed)
	history := &compare.Recorder{Source: source{g}}
	difference, err := compare.Run(config, history, covered)
	if err != nil {
		t.Errorf("seed %d: %v", seed, err)
		return
	}
	if difference == nil {
		return
	}
	found := compare.Case{Name: fmt.Sprintf("seed-%d", seed), Config: config, Ops: compare.Shrink(config, history.Ops)}
	if smaller, err := compare.Run(config, &compare.Recorded{Ops: found.Ops}, nil); err == nil && smaller != nil {
		difference = smaller
	}
	dir := casesOf(g.Config())
	if err := found.Save(dir); err != nil {
		t.Error(err)
	}
	t.Errorf("seed %d, plainly %v, with the strangers %v, shrunk to %d ops in %s/%s.jsonl:\n%v", seed, config.Plain, config.Opaque, len(found.Ops), dir, found.Name, difference)
}

// source is a generator as a history that ends.
type source struct{ *generate.Generator }

func (s source) Next() (log.Op, error) {
	op, ok := s.Generator.Next()
	if !ok {
		return log.Op{}, io.EOF
	}
	return op, nil
}

var _ compare.Source = source{}

func (s source) Tell(o *run.Outcome) { s.Generator.Tell(o) }
