package main

import (
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// podKB is less than what a watch event of a pod of the loads has, where it is not compressed.
const podKB = 4

// The whole bench with few pods: Berth beside the null binder, with one load.
func TestTheBenchPrintsItsTables(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bench.json")
	o, err := parse([]string{
		"--layers=process", "--shapes=basic,claims", "--loads=open", "--sides=berth,null,null+watch+kinds,null+watch+events", "--nodes=10", "--existing=5",
		"--rates=20", "--seconds=1", "--rounds=1", "--limit=3m", "--json=" + file,
	})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := perf(t.Context(), o, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Groups) != 2 || len(r.Groups[0].Runs) != 3 || len(r.Groups[1].Runs) != 3 || len(r.Skipped) != 2 {
		t.Fatalf("want two groups of three runs, and null skipped:\n%s", text)
	}
	eventsOf := map[string]float64{berth: 1, nullOfAllKinds: 0, "null+watch+events": 1}
	for _, run := range slices.Concat(r.Groups[0].Runs, r.Groups[1].Runs) {
		if run.Pods != 20 || run.Latency == nil || run.Latency.P50 <= 0 || run.Peak[scheduler] <= 0 || run.EventsPerPod != eventsOf[run.Side] {
			t.Errorf("a run is incomplete: %+v", run)
		}
		// The pod as it was created, and as it was bound.
		if run.Counted.ReadKB < 2*podKB {
			t.Errorf("%s reads %.1f KB for a pod: it watches pods in another encoding than the other sides", run.Side, run.Counted.ReadKB)
		}
	}
	for _, want := range []string{"p99 ms", "null+watch+events", "skipped: process, basic, open, null: it does not see pods that are created later"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, out.String())
		}
	}
}

func TestAlternatingSidesAreTimedDuringTheirTurns(t *testing.T) {
	for sentence, c := range map[string]struct {
		load     string
		events   map[string]float64 // of a pod, by side
		criteria int
	}{
		"what explaining costs, while pods are created": {"alternating", map[string]float64{recorded: 1, unexplained: 1}, 1},
		"beside a null binder, with a start":            {"alternating+drain", map[string]float64{berth: 1, "null+watch+events": 1}, 3},
	} {
		t.Run(sentence, func(t *testing.T) {
			o, err := parse([]string{
				"--layers=process", "--shapes=basic", "--loads=" + c.load, "--sides=" + strings.Join(slices.Collect(maps.Keys(c.events)), ","),
				"--nodes=10", "--existing=5", "--pods=120", "--rounds=1", "--limit=5m", "--json=" + filepath.Join(t.TempDir(), "bench.json"),
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
			if len(g.Runs) != len(c.events) || len(g.Criteria) != c.criteria || g.Criteria[0].Seen.N != 1 {
				t.Fatalf("want a run of each side, and one pair of them: %+v", g)
			}
			sum := 0.0
			for _, r := range g.Runs {
				took := r.Took
				if alternatingLoads[c.load] == "drain" {
					took += r.StartUp // which so few pods are bound in
				}
				sum += took
				if r.Pods != 120 || took <= 0 || r.CPU[scheduler] <= 0 || r.EventsPerPod != c.events[r.Side] || r.Load != c.load {
					t.Errorf("a run lacks something: %+v", r)
				}
			}
			if sum > whole {
				t.Errorf("the sides ran for %.1f s in %.1f s", sum, whole)
			}
		})
	}
}

func TestStartsAndNodesThatChangeAreMeasured(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bench.json")
	o, err := parse([]string{
		"--layers=process", "--shapes=basic", "--loads=burst+node-changes,start", "--sides=berth-elected,kube-scheduler", "--nodes=100", "--existing=5",
		"--pods=100", "--sizes=10:20", "--rounds=1", "--limit=3m", "--json=" + file,
	})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{options: o, out: io.Discard}
	if b.plugins, err = resolve(); err != nil {
		t.Fatal(err)
	}
	if err := b.processes(t.Context()); err != nil {
		t.Fatal(err)
	}
	changes, starts := b.report.Groups[0], b.report.Groups[1]
	for _, r := range changes.Runs {
		if r.NodeChanges <= 0 || r.PodsPerSecond <= 0 {
			t.Errorf("a run while nodes change is incomplete: %+v", r)
		}
	}
	for _, r := range starts.Runs {
		if r.StartUp <= 0 || r.Heap <= 0 || peak(r) < r.Heap {
			t.Errorf("a start is incomplete: %+v", r)
		}
	}
	if len(changes.Runs) != 2 || len(starts.Runs) != 2 || starts.Nodes != 10 || starts.Existing != 20 {
		t.Errorf("want two runs each, the starts on 10 nodes with 20 pods: %+v", b.report)
	}
}
