package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The whole bench, tiny: Berth beside the null binder, under two loads, and the
// algorithm where its replayers are.
func TestTheBenchRunsToItsTables(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bench.json")
	o, err := parse([]string{
		"--layers=process", "--shapes=basic", "--loads=open", "--sides=berth,null,null+watch+events", "--nodes=10", "--existing=5",
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
	if len(r.Groups) != 1 || len(r.Groups[0].Runs) != 2 || len(r.Skipped) != 1 {
		t.Fatalf("want one group of two runs, and null skipped:\n%s", text)
	}
	for _, run := range r.Groups[0].Runs {
		if run.Pods != 20 || run.Latency == nil || run.Latency.P50 <= 0 || run.Peak[scheduler] <= 0 || run.EventsPerPod != 1 {
			t.Errorf("a run lacks something: %+v", run)
		}
	}
	for _, want := range []string{"p99 ms", "null+watch+events", "skipped: process, basic, open, null: it does not see pods that come later"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output does not hold %q:\n%s", want, out.String())
		}
	}
}
