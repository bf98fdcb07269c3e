package main

import (
	"io"
	"path/filepath"
	"testing"
	"time"
)

// What one side explains and another does not, tiny: whoever stands still while the
// other has its turn has less time of its own than there was.
func TestSidesThatTakeTurnsHaveTheirOwnTime(t *testing.T) {
	o, err := parse([]string{
		"--layers=process", "--shapes=basic", "--loads=turns", "--sides=berth-recorded,berth-unexplained",
		"--nodes=10", "--existing=5", "--pods=100", "--rounds=1", "--limit=5m", "--json=" + filepath.Join(t.TempDir(), "bench.json"),
	})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{options: o, out: io.Discard}
	if b.plugins, err = resolve(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := b.processes(t.Context()); err != nil {
		t.Fatal(err)
	}
	whole := time.Since(began).Seconds()
	g := b.report.Groups[0]
	if len(g.Runs) != 2 || len(g.Standings) != 1 || g.Standings[0].Seen.N != 1 {
		t.Fatalf("want a run of each side, and one pair of them: %+v", g)
	}
	sum := 0.0
	for _, r := range g.Runs {
		sum += r.Took
		if r.Pods != 100 || r.Took <= 0 || r.CPU[scheduler] <= 0 || r.EventsPerPod != 1 {
			t.Errorf("a run lacks something: %+v", r)
		}
	}
	if sum > whole {
		t.Errorf("both together had %.1f s of their own in %.1f s", sum, whole)
	}
}
