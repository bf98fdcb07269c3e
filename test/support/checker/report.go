package checker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/berthdev/berth/test/support/audit"
	"github.com/berthdev/berth/test/support/history"
)

// Input is all that Check reads.
type Input struct {
	Options Options
	History history.History
	// Audit are the requests of the audit logs; Audited says that there are logs.
	Audit   []audit.Entry
	Audited bool
	// Samples are those of each process, Exits the processes that ended by themselves.
	Samples map[string][]Sample
	Exits   []string
	// Now is when the recording ended.
	Now time.Time
}

// Violation is one violation of an invariant.
type Violation struct {
	Invariant Invariant
	// Revision is that of etcd at which it was seen; 0 where there is none.
	Revision int64
	// Object is what it is about, as in "Pod shop/web".
	Object  string
	Message string
}

// String is the violation in one line.
func (v Violation) String() string {
	text := string(v.Invariant)
	if v.Revision > 0 {
		text += fmt.Sprintf(" at revision %d", v.Revision)
	}
	return strings.TrimSuffix(fmt.Sprintf("%s: %s: %s", text, v.Object, v.Message), ": ")
}

// Report is the result of Check.
type Report struct {
	// Violations are in the order of the invariants, then of the revisions.
	Violations []Violation
	// Checked are the numbers of checks by invariant.
	Checked map[Invariant]int
	// Undecided says why an invariant could not be decided, Skipped why it was not to be.
	Undecided, Skipped map[Invariant]string
	// Binds is the number of binds by Berth, ByEpoch that of each leader epoch. MostPods is the
	// largest number of pods that a node ever had.
	Binds    int
	ByEpoch  map[int64]int
	MostPods int64
	// Facts are numbers of the history, in the order in which they are printed.
	Facts []string
}

// results collects what the checks find.
type results struct {
	Report
	options Options
}

func newResults(o Options) *results {
	return &results{options: o, Report: Report{Checked: map[Invariant]int{}, Undecided: map[Invariant]string{}, Skipped: maps.Clone(o.Skip)}}
}

// checked counts a check.
func (r *results) checked(i Invariant) { r.Checked[i]++ }

// fail adds a violation, unless the invariant is skipped.
func (r *results) fail(i Invariant, revision int64, object, format string, args ...any) {
	if _, skipped := r.Skipped[i]; !skipped {
		r.Violations = append(r.Violations, Violation{i, revision, object, fmt.Sprintf(format, args...)})
	}
}

// order is the place of an invariant in the table.
func order(i Invariant) int {
	return slices.IndexFunc(Invariants, func(r Row) bool { return r.Invariant == i })
}

// mostPerInvariant is how many violations of one invariant String prints.
const mostPerInvariant = 20

// String is a table of all invariants: how often each was checked and what was found; then the
// violations.
func (r Report) String() string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "INVARIANT\tWHAT\tBY\tCHECKED\tRESULT")
	found := map[Invariant]int{}
	for _, v := range r.Violations {
		found[v.Invariant]++
	}
	for _, row := range Invariants {
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\n", row.Invariant, row.What, cmp.Or(row.Inputs, "-"), r.Checked[row.Invariant], r.result(row, found[row.Invariant]))
	}
	_ = table.Flush() // a strings.Builder returns no error
	for _, fact := range r.Facts {
		fmt.Fprintln(&text, fact)
	}
	printed := map[Invariant]int{}
	for _, v := range r.Violations {
		if printed[v.Invariant]++; printed[v.Invariant] <= mostPerInvariant {
			fmt.Fprintln(&text, v)
		} else if printed[v.Invariant] == found[v.Invariant] {
			fmt.Fprintf(&text, "%s: and %d more\n", v.Invariant, found[v.Invariant]-mostPerInvariant)
		}
	}
	return text.String()
}

// result is the last column of a row.
func (r Report) result(row Row, violations int) string {
	switch {
	case r.Skipped[row.Invariant] != "":
		return "skipped: " + r.Skipped[row.Invariant]
	case violations > 0:
		return fmt.Sprintf("%d violations", violations)
	case row.Inputs == "":
		return "decided by " + row.Elsewhere
	case r.Undecided[row.Invariant] != "":
		return "not decided: " + r.Undecided[row.Invariant]
	case r.Checked[row.Invariant] == 0:
		return "nothing to check"
	}
	return "ok"
}

// NotDecided names the invariants of which the history decides nothing, and why, a line for each.
func (r Report) NotDecided() (lines []string) {
	for _, row := range Invariants {
		if result := r.result(row, 0); result != "ok" {
			lines = append(lines, fmt.Sprintf("%s: %s", row.Invariant, result))
		}
	}
	return lines
}

// Check decides the invariants.
func Check(in Input) Report {
	in.Options = in.Options.withDefaults()
	r := newResults(in.Options)
	t := newTimeline(in)
	r.checkComplete(in)
	r.replayBinds(t)
	r.checkClaims(t)
	r.checkWaits(t)
	r.checkProfiles(t)
	r.checkJournal(t)
	r.checkVictims(t)
	r.checkNames(t)
	r.checkAudit(t)
	r.checkQuiet(t)
	r.checkSamples(in)
	r.Violations = append(r.Violations, r.finalState(t)...)
	slices.SortStableFunc(r.Violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(order(a.Invariant), order(b.Invariant)), cmp.Compare(a.Revision, b.Revision))
	})
	return r.Report
}

// checkComplete reports the gaps of the history.
func (r *results) checkComplete(in Input) {
	r.checked(Complete)
	for _, gap := range in.History.Gaps {
		r.fail(Complete, gap.At, "etcd", "versions after revision %d are missing: etcd had compacted them", gap.After)
	}
	for _, kind := range slices.Sorted(maps.Keys(in.History.Undecoded)) {
		r.Facts = append(r.Facts, fmt.Sprintf("%d versions of %s were not decoded", in.History.Undecoded[kind], kind))
	}
}
