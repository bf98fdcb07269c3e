package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEveryPlantedFaultHasAnEditAndARow(t *testing.T) {
	edits, err := readEdits(plantedFiles, "planted")
	if err != nil {
		t.Fatal(err)
	}
	var edited []string
	for _, e := range edits {
		edited = append(edited, e.mutations()...)
	}
	rows := plantedNames()
	slices.Sort(edited)
	slices.Sort(rows)
	if diff := cmp.Diff(rows, slices.Compact(edited)); diff != "" {
		t.Errorf("faults of the table and of the edits (-table,+edits):\n%s", diff)
	}
	if len(rows) < 40 {
		t.Errorf("%d planted faults, want 40 or more", len(rows))
	}
}

func TestPlantedFaultsBuild(t *testing.T) {
	edits, err := readEdits(plantedFiles, "planted")
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{dir: t.TempDir()}
	if l.root, err = moduleRoot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.writeOverlay(plantedFiles, "planted", plantedNames()); err != nil {
		t.Fatal(err)
	}
	if err := l.goTool(t.Context(), append([]string{"build"}, packagesOfEdits(edits)...)...); err != nil {
		t.Error(err)
	}
}

func TestOptionsOfPlantedFaults(t *testing.T) {
	for sentence, c := range map[string]struct {
		args []string
		err  string
	}{
		"a layer that does not exist":           {[]string{"--planted", "--layers=dreams"}, `--layers: there is no "dreams"; there are units, `},
		"a fault that does not exist":           {[]string{"--planted", "--only=NaiveSwap"}, `--only: there is no "NaiveSwap"; there are WakeUpLost, `},
		"a planted fault without --planted":     {[]string{"--only=WakeUpLost"}, `--only: there is no "WakeUpLost"; there are `},
		"--json without --planted":              {[]string{"--json=x"}, "--json: requires --planted"},
		"a command":                             {[]string{"--planted", "--", "go", "test"}, "--planted: takes no command"},
		"two mutations and a command":           {[]string{"--only=NaiveSwap,ClosedDuringBind", "--", "go"}, "--only: 2 mutations, want at most one for a command"},
		"an argument that is neither":           {[]string{"NaiveSwap"}, `unexpected argument "NaiveSwap"`},
		"one fault and one layer":               {[]string{"--planted", "--only=WakeUpLost", "--layers=histories"}, ""},
		"a command without a mutation":          {[]string{"--", "go", "version"}, ""},
		"a mutation that is run with a program": {[]string{"--only=NaiveSwap", "--", "go"}, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			_, err := parseOptions(c.args)
			if (err == nil) != (c.err == "") || err != nil && !strings.HasPrefix(err.Error(), c.err) {
				t.Errorf("error %v, want %q", err, c.err)
			}
		})
	}
}

func TestFindingsOfAnotherCommitAreRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "findings.json")
	text, err := json.Marshal(plantedReport{Commit: "1234567", Findings: []finding{{Fault: "WakeUpLost", Layer: "units", Found: true}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	r := &plantedRun{lab: &lab{dir: t.TempDir()}, file: file}
	if r.root, err = moduleRoot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.begin(t.Context()); err == nil || !strings.Contains(err.Error(), "has findings of commit 1234567") {
		t.Errorf("error %v, want one that names commit 1234567", err)
	}
}

func TestTheTableOfFindings(t *testing.T) {
	var out strings.Builder
	r := &plantedRun{
		lab: &lab{out: &out}, layers: []layer{{name: "units"}, {name: "histories"}},
		faults: []plantedFault{{"A", "loses a pod"}, {"B", "binds twice"}, {"C", "does nothing"}},
		report: plantedReport{Commit: "1234567", Findings: []finding{
			{Fault: "A", Layer: "units", Found: true, Seconds: 2.1}, {Fault: "A", Layer: "histories", Found: true, Seconds: 31},
			{Fault: "B", Layer: "units", Seconds: 4}, {Fault: "B", Layer: "histories", Found: true, Seconds: 7},
		}},
	}
	r.print()
	want := `FAULT             units  histories  WHAT IT DOES
A                 2 s    31 s       loses a pod
B                 -      7 s        binds twice
C                 -      -          does nothing
2 of 3 are found  1      2          commit 1234567
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
}
