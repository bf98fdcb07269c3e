package checker

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTheTrueHistoryHasNoViolation(t *testing.T) {
	r := Check(newStory("", nil).Input)
	if len(r.Violations) > 0 {
		t.Errorf("found:\n%s", r)
	}
	for _, row := range Invariants {
		if row.Inputs != "" && r.Checked[row.Invariant] == 0 {
			t.Errorf("%s: nothing was checked", row.Invariant)
		}
		if why := r.Undecided[row.Invariant]; why != "" {
			t.Errorf("%s was not decided: %s", row.Invariant, why)
		}
	}
}

// Each invariant that is decided here has a history with one violation of it, and each that is
// not names a test that decides it.
func TestEachInvariantHasAPlantedViolation(t *testing.T) {
	planted := map[string]bool{}
	for _, c := range slices.Concat(bindPlants, statusPlants, inputPlants) {
		invariant, _, _ := strings.Cut(c.want, " ")
		planted[invariant] = true
	}
	for _, row := range Invariants {
		if decided := row.Inputs != ""; decided != planted[string(row.Invariant)] {
			t.Errorf("%s: decided here: %t, planted: %t", row.Invariant, decided, planted[string(row.Invariant)])
		}
		if row.Inputs == "" && row.Elsewhere == "" {
			t.Errorf("%s: no test decides it", row.Invariant)
		}
	}
}

// The tests that decide what cannot be seen here exist.
func TestTheTestsOfTheTableExist(t *testing.T) {
	for _, row := range Invariants {
		if row.Elsewhere == "" {
			continue
		}
		folder, name, _ := strings.Cut(row.Elsewhere, " ")
		files, err := filepath.Glob(filepath.Join("..", "..", "..", folder, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		exists := slices.ContainsFunc(files, func(file string) bool {
			text, err := os.ReadFile(file)
			return err == nil && strings.Contains(string(text), "\nfunc "+name+"(t *testing.T)")
		})
		if !exists {
			t.Errorf("%s: there is no test %s in %s", row.Invariant, name, folder)
		}
	}
}

// planted is a history with one violation.
type planted struct {
	sentence string
	// at is the point of the story at which plant changes it.
	at    string
	plant func(*story)
	// want is the invariant and the object, message a part of the message.
	want, message string
}

func TestPlantedViolationsAreFound(t *testing.T) {
	for _, c := range slices.Concat(bindPlants, statusPlants, inputPlants) {
		t.Run(c.sentence, func(t *testing.T) {
			r := Check(newStory(c.at, c.plant).Input)
			if diff := cmp.Diff([]string{c.want}, found(r)); diff != "" {
				t.Errorf("(-want +got):\n%s\n%s", diff, r)
			} else if !strings.Contains(r.Violations[0].Message, c.message) {
				t.Errorf("the message is %q, want one that contains %q", r.Violations[0].Message, c.message)
			}
		})
	}
}

// What looks like a violation and is none.
func TestWhatCouldNotBeKnownIsNoViolation(t *testing.T) {
	for _, c := range allowed {
		t.Run(c.sentence, func(t *testing.T) {
			if r := Check(newStory(c.at, c.plant).Input); len(r.Violations) > 0 {
				t.Errorf("found:\n%s", r)
			}
		})
	}
}

func TestASkippedInvariantIsNotReported(t *testing.T) {
	s := newStory("end", func(s *story) { s.Exits = []string{"a"} })
	s.Options.Skip = map[Invariant]string{I21: "the suite kills it"}
	r := Check(s.Input)
	if len(r.Violations) > 0 || !strings.Contains(r.String(), "skipped: the suite kills it") {
		t.Errorf("got:\n%s", r)
	}
}

func TestNamespacesThatAreNotCheckedAreLeftOut(t *testing.T) {
	s := newStory("end", func(s *story) {
		s.put(pod("elsewhere/lost-1", "100").Obj())
		s.request("create", "secrets", "elsewhere", "token")
	})
	want := []string{"Foreign create /elsewhere/secrets/token", "I3 Pod elsewhere/lost-1", "Status SchedulingProfile batch"}
	if diff := cmp.Diff(want, found(Check(s.Input))); diff != "" {
		t.Errorf("in all namespaces (-want +got):\n%s", diff)
	}
	s.Options.Namespaces = []string{"shop", "other"}
	s.Options = s.Options.withDefaults()
	s.narrow()
	if r := Check(s.Input); len(r.Violations) > 0 || r.Checked[I18] == 0 {
		t.Errorf("in those of the story, found:\n%s", r)
	}
}

func TestWhatIsNotDecidedIsNamed(t *testing.T) {
	s := newStory("end", func(s *story) { s.Audited = false })
	s.Options.Skip = map[Invariant]string{I21: "the suite kills it"}
	lines := Check(s.Input).NotDecided()
	for _, want := range []string{"I10: not decided: there is no audit log", "I21: skipped: the suite kills it", "I19: decided by " + simulation} {
		if !slices.Contains(lines, want) {
			t.Errorf("%q is missing in %q", want, lines)
		}
	}
	if slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "I1: ") }) {
		t.Errorf("I1 was decided, and is in %q", lines)
	}
}

func TestTheReportHasARowForEachInvariant(t *testing.T) {
	s := newStory("end", func(s *story) { s.Exits = []string{"a"} })
	s.Audited = false
	text := Check(s.Input).String()
	for _, line := range []string{
		"INVARIANT  WHAT ", "I1         bound once, to a node on which it fits ", "I21: process a: it ended by itself\n",
		"not decided: there is no audit log", "decided by test/simulation", "1 violations",
		"6 binds by 2 leaders; the fullest node had 4 pods of 5\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("the report lacks %q:\n%s", line, text)
		}
	}
}

func TestFinalStateAloneIsWhatMaySettle(t *testing.T) {
	s := newStory("before the status", func(s *story) { s.pending = 7 })
	got := checkFinalState(s.Input)
	if len(got) != 1 || got[0].Invariant != Status {
		t.Errorf("got %v", got)
	}
	if left := untilQuiet(s.Input); left != 0 {
		t.Errorf("after five seconds without a change, %s are missing", left)
	}
	s.Now = s.now.Add(500 * time.Millisecond)
	if left := untilQuiet(s.Input); left != 1500*time.Millisecond {
		t.Errorf("half a second after a change, %s of two seconds are missing", left)
	}
}

// A request that changes nothing is not in the history.
func TestRequestsThatChangeNothingAreNotQuiet(t *testing.T) {
	s := newStory("", nil)
	if late := lateRequests(s.Input); len(late) > 0 {
		t.Errorf("five seconds after the last request: %v", late)
	}
	s.now = s.Now.Add(-time.Second)
	s.request("patch", "schedulingprofiles/status", "", "batch")
	s.request("update", "leases", "berth-system", "berth-manager")
	if late := lateRequests(s.Input); len(late) != 1 || late[0].ObjectRef.Resource != "schedulingprofiles" {
		t.Errorf("one second after a request: %v", late)
	}
}
