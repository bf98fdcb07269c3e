package main

import (
	"flag"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/berthdev/berth/test/oracle/compare"
	"github.com/berthdev/berth/test/replay/generate"
	"github.com/berthdev/berth/test/replay/log"
	"github.com/berthdev/berth/test/replay/run"
)

var (
	decisions = flag.Int("decisions", 5000, "how many generated decisions are compared")
	firstSeed = flag.Uint64("seed", 1, "the seed of the first history")
	least     = flag.Int("least", 1, "how often each plugin must have refused, and have changed a winner")
)

// perHistory is how many attempts one generated history has.
const perHistory = 100

// The histories of differences that were found once. They may not come back.
func TestCases(t *testing.T) {
	cases, err := compare.Load("cases")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			difference, err := compare.Run(c.Config, &compare.Recorded{Ops: c.Ops}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if difference != nil {
				t.Errorf("cases/%s.jsonl, line %d:\n%v", c.Name, c.Ops[difference.Op].Line, difference)
			}
		})
	}
}

// Berth decides as kube-scheduler does, whatever the cluster is like.
func TestGeneratedDecisions(t *testing.T) {
	covered := compare.NewCoverage()
	var (
		mu    sync.Mutex
		work  sync.WaitGroup
		taken atomic.Uint64
	)
	histories := uint64((*decisions + perHistory - 1) / perHistory)
	for range runtime.GOMAXPROCS(0) {
		work.Go(func() {
			for i := taken.Add(1) - 1; i < histories && !t.Failed(); i = taken.Add(1) - 1 {
				mine := compare.NewCoverage()
				oneHistory(t, *firstSeed+i, mine)
				mu.Lock()
				covered.Add(mine)
				mu.Unlock()
			}
		})
	}
	work.Wait()
	t.Logf("seeds %d to %d: %v", *firstSeed, *firstSeed+histories-1, covered)
	if t.Failed() {
		return
	}
	for _, short := range covered.Short(*least) {
		t.Errorf("the histories prove too little: %s", short)
	}
	if covered.Refused*100 < covered.Attempts*15 {
		t.Errorf("the histories prove too little: %d of %d attempts were refused, want 15 %%", covered.Refused, covered.Attempts)
	}
}

// oneHistory compares one; a difference is shrunk and kept as a case.
func oneHistory(t *testing.T, seed uint64, covered *compare.Coverage) {
	g := generate.New(seed, perHistory)
	history := &compare.Recorder{Source: source{g}}
	difference, err := compare.Run(g.Config(), history, covered)
	if err != nil {
		t.Errorf("seed %d: %v", seed, err)
		return
	}
	if difference == nil {
		return
	}
	found := compare.Case{Name: fmt.Sprintf("seed-%d", seed), Config: g.Config(), Ops: compare.Shrink(g.Config(), history.Ops)}
	if smaller, err := compare.Run(found.Config, &compare.Recorded{Ops: found.Ops}, nil); err == nil && smaller != nil {
		difference = smaller
	}
	if err := found.Save("cases"); err != nil {
		t.Error(err)
	}
	t.Errorf("seed %d, shrunk to %d ops in cases/%s.jsonl:\n%v", seed, len(found.Ops), found.Name, difference)
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
