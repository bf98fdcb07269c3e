package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/test/support/growth"
)

// partOf returns a part of an hour of a commit, with seeds of a layer.
func partOf(commit string, hour int, r *record) *part {
	began := time.Date(2026, 1, 1, hour, 0, 0, 0, time.UTC)
	return &part{Name: began.Format(time.RFC3339), Commit: "c-" + commit, Machine: "2 cores", Began: began, Ended: began.Add(time.Hour), Complete: true, Layers: map[string]*record{"a": r}}
}

func seedsOf(first, next uint64) *record {
	return &record{Seconds: 3600, Working: 3600, First: first, Next: next, Counts: map[string]uint64{"seeds": next - first}}
}

// A report is of one commit; what parts of others did is counted beside it.
func TestTheReportIsOfTheNewestCommit(t *testing.T) {
	parts := []*part{partOf("old", 0, seedsOf(1, 1_000_001)), partOf("new", 1, seedsOf(1_000_001, 3_000_001)), partOf("new", 2, seedsOf(3_000_001, 4_000_001))}
	parts[0].Layers["a"].Findings = []finding{{What: "a pod is lost", Repeat: "go test"}}
	parts[2].Complete = false
	report := formatReport([]layer{layerOf("a", 1)}, merge(newest(parts)), merge(parts), false)
	for _, want := range []string{
		"2.0 hours in 2 parts of commit c-new, from 2026-01-01 to 2026-01-01, on 2 cores. 1 of the parts did not end by themselves",
		"which are in the columns \"in all\" alone: 3.0 hours in 3 parts.",
		"| a | 2.00 | 3,000,000 seeds | 4,000,000 seeds | 0 | 1.0e-06 |",
		"| seeds | 3,000,000 | 4,000,000 | 100 |",
		"| swaps | 0 | 0 | 10,000 |",
		"Nothing was found.",
		"The parts that are not of this commit had 1 findings.",
	} {
		if !strings.Contains(report, want) {
			t.Errorf("the report lacks %q:\n%s", want, report)
		}
	}
}

func TestFindingsHaveNoBound(t *testing.T) {
	r := seedsOf(1, 1001)
	r.Findings = []finding{{What: "seed 7: a `pod` <is> lost", Repeat: "go test -first 7"}}
	m := merge([]*part{partOf("new", 0, r)})
	report := formatReport([]layer{layerOf("a", 1)}, m, m, false)
	for _, want := range []string{"| a | 1.00 | 1,000 seeds | 1,000 seeds | 1 |  |", "- a: `seed 7: a 'pod' <is> lost`; `go test -first 7`"} {
		if !strings.Contains(report, want) {
			t.Errorf("the report lacks %q:\n%s", want, report)
		}
	}
}

func TestPartsOfChangedSourcesAreLeftOut(t *testing.T) {
	parts := []*part{partOf("new", 0, seedsOf(1, 11)), partOf("new", 1, seedsOf(11, 21))}
	parts[0].Dirty = true
	if n := len(newest(parts)); n != 1 {
		t.Errorf("%d parts, want the one without changes", n)
	}
	parts[1].Dirty = true
	if n := len(newest(parts)); n != 2 {
		t.Errorf("%d parts, want both, since the last has changes", n)
	}
}

func TestTheReportHasTheSlopesOfAllRuns(t *testing.T) {
	var samples []growth.Sample
	for i := range 240 {
		samples = append(samples, growth.Sample{Seconds: float64(10 * i), Heap: 60, Goroutines: 300 + float64(i)})
	}
	r := &record{Counts: map[string]uint64{"pods": 5, "swaps": 12000}, Samples: [][]growth.Sample{samples, samples}}
	m := merge([]*part{partOf("new", 0, r)})
	report := formatReport([]layer{layerOf("a", 1)}, m, m, true)
	for _, want := range []string{
		"of 2 runs together", "sampled for 15 minutes",
		"| heap after GC | 60.0 MiB | +0.00 (-0.00 to +0.00) | +0.00 (+0.00 to +0.00), 30 min | 3 |",
		"| goroutines | 449.5  | +360.00 (+360.00 to +360.00) | +360.00 (+360.00 to +360.00), 30 min | 5 |",
		"| swaps | 12,000 | 12,000 | 10,000 |",
		"](reliability/soak.svg)",
	} {
		if !strings.Contains(report, want) {
			t.Errorf("the report lacks %q:\n%s", want, report)
		}
	}
	c := curvesOf(samples)
	if heap := c.Curves["heap after GC"]; len(heap) == 0 || heap[0][1] != 100 || len(c.Curves["descriptors"]) != 0 {
		t.Errorf("curves %v: want the heap in percent, and none of what is 0 at first", c.Curves)
	}
}

// A run that does not grow must not hide one that does.
func TestTheReportHasTheSteepestRun(t *testing.T) {
	samples := func(perSample float64) (all []growth.Sample) {
		for i := range 240 {
			all = append(all, growth.Sample{Seconds: float64(10 * i), Handlers: 20 + perSample*float64(i)})
		}
		return all
	}
	r := &record{Samples: [][]growth.Sample{samples(0), samples(0.1)}}
	m := merge([]*part{partOf("new", 0, r)})
	report := formatReport([]layer{layerOf("a", 1)}, m, m, false)
	if want := "| +36.00 (+36.00 to +36.00), 30 min | 0.5 |"; !strings.Contains(report, want) {
		t.Errorf("the report lacks %q:\n%s", want, report)
	}
}

// What did not run is in the report, too.
func TestTheReportHasLayersThatDidNotRun(t *testing.T) {
	m := merge([]*part{partOf("new", 0, seedsOf(1, 11))})
	report := formatReport([]layer{layerOf("a", 1), layerOf("b", 1)}, m, m, false)
	// Ten seeds bound no rate.
	for _, want := range []string{"| a | 1.00 | 10 seeds | 10 seeds | 0 |  |", "| b | 0.00 | nothing | 0 seeds | 0 |  |"} {
		if !strings.Contains(report, want) {
			t.Errorf("the report lacks %q:\n%s", want, report)
		}
	}
}

func TestTheReportGoesBetweenItsMarks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(file, []byte("# Page\n"+beginMark+"\nold\n"+endMark+"\nrest\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := insert(file, "new"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if want := "# Page\n" + beginMark + "\nnew\n" + endMark + "\nrest\n"; err != nil || string(text) != want {
		t.Errorf("got %q and %v, want %q", text, err, want)
	}
	if err := os.WriteFile(file, []byte("# Page\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := insert(file, "new"); err == nil || !strings.Contains(err.Error(), "must contain the lines") {
		t.Errorf("a page without marks: %v", err)
	}
}

// The page of the report has the marks.
func TestThePageHasTheMarks(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("../..", filepath.FromSlash(page)))
	if err != nil {
		t.Fatal(err)
	}
	begin, end := strings.Index(string(text), beginMark), strings.Index(string(text), endMark)
	if begin < 0 || end < begin {
		t.Errorf("%s has no %s before %s", page, beginMark, endMark)
	}
}
