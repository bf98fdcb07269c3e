package simulation

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheSourcesNameWhatCanBeMet(t *testing.T) {
	counts, verbs, err := namesInSources(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"a crash", "a gang is interrupted", "a list finds another object under the same name"} {
		if !slices.Contains(counts, what) {
			t.Errorf("%q is counted, and is not found in the sources: %q", what, counts)
		}
	}
	for _, verb := range []string{"bind", "delete", "get", "journal", "list", "patch"} {
		if !slices.Contains(verbs, verb) {
			t.Errorf("requests have the verb %q, which is not found in the sources: %q", verb, verbs)
		}
	}
}

func TestTheTableOfWhatWasMet(t *testing.T) {
	table := &coverageTable{histories: map[cell]int{}, first: map[cell]int{}, sections: []section{{
		name: "pods and events", rows: []string{"Active", "Gated", "Held"}, columns: []string{"swap", "kill", "rest"},
		impossible: func(row, column string) string {
			if row == "Held" && column != "swap" {
				return "nothing reaches it"
			}
			return ""
		},
	}}}
	for n, met := range [][]string{{"Active", "swap"}, {"Active", "kill"}, {"Active", "swap"}, {"Held", "kill"}, {"Lost", "kill"}} {
		c := newCoverage()
		c.add("pods and events", met[0], met[1])
		c.add("what only guides", met[0], met[1])
		table.add(c, n+1)
	}
	want := `2 of 7 cells are met

pods and events: 2 of 7
  never: Active: rest
  never: Gated: at all
  never: Held: swap
  cannot happen, 1 cells: nothing reaches it
  MET ALTHOUGH IT CANNOT: Held × kill (nothing reaches it), met in history 4
  met, and in no list: Lost × kill
`
	if diff := cmp.Diff(want, table.String()); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
	var late []string
	for _, at := range table.newSince(2) {
		late = append(late, at.names())
	}
	if diff := cmp.Diff([]string{"Active × kill", "Held × kill", "Lost × kill"}, late); diff != "" {
		t.Errorf("new since the second history (-want,+got):\n%s", diff)
	}
	if wrong := table.wrong(); len(wrong) != 1 || !strings.HasPrefix(wrong[0], "Held × kill") {
		t.Errorf("got the wrong reasons %q, want that of Held × kill", wrong)
	}
}

// Each section has cells that a few hundred histories meet: a section that meets none is not
// recorded, or names its cells otherwise.
func TestEverySectionOfTheTableIsMet(t *testing.T) {
	known := whatExists(t)
	known.gangs = true
	r := newGuidedRun(guidedOptions{histories: 40, seed: 1, unguided: true, kinds: []string{"", "", "", "", "", "gangs"}, known: known})
	r.run(nil)
	for _, s := range r.table.sections {
		if cells := r.table.cellsOf(s); cells.met == 0 {
			t.Errorf("%q meets none of %d cells", s.name, cells.possible)
		}
	}
	for _, hidden := range []string{trailSection, pathSection, taskSection, duringSection} {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(r.table.histories)), func(at cell) bool { return at.section == hidden }) {
			t.Errorf("%q guides nothing", hidden)
		}
	}
}
