package crashes

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/test/support/audit"
	"github.com/berthdev/berth/test/support/checker"
)

// quiet is how long nothing may be written at the end of a cell. Counters, which are published each
// second, are right before that.
const quiet = 300 * time.Millisecond

// notChecked are the invariants that no cell decides, and why.
var notChecked = map[checker.Invariant]string{
	checker.I8:  "each cell kills a process: test/handover/soak samples processes that live long",
	checker.I9:  "each cell kills a process: test/handover/soak samples processes that live long",
	checker.I21: "each cell kills a process; the suite itself reports a panic in the log of one that ends otherwise",
}

// alwaysChecked are the invariants of which each cell checks something: a leader binds at least one
// pod, and writes the status of its profile.
var alwaysChecked = []checker.Invariant{
	checker.I1, checker.I4, checker.I7, checker.I10, checker.I13, checker.I17, checker.I18, checker.Foreign, checker.Status, checker.Complete,
}

// startChecker begins to record what happens to the objects of the scenario.
func (e *env) startChecker(ctx context.Context) (err error) {
	registry := plugins.InTree()
	registry[stepperName] = registerIdle()
	e.checker, err = checker.Start(ctx, e.cp, checker.Options{
		FromNow: true, Namespaces: []string{e.id}, Audit: []audit.Log{e.audit}, Registry: registry,
		Settle: checkTimeout, Quiet: quiet, Skip: notChecked,
	})
	return err
}

// verdict ends the recording of a scenario, and returns the violations that the checker finds in
// it. It also expects that as many pods were evicted as the scenario wants.
func (s *Suite) verdict(ctx context.Context, e *env, t *trigger) (found []string) {
	report, err := e.checker.End(ctx)
	if err != nil {
		return []string{"the checker could not decide: " + err.Error()}
	}
	s.Decided.add(report)
	for _, violation := range report.Violations {
		found = append(found, violation.String())
	}
	for _, i := range alwaysChecked {
		if report.Checked[i] == 0 {
			found = append(found, fmt.Sprintf("%s was not checked: %s", i, strings.Join(report.NotDecided(), "; ")))
		}
	}
	evicted, err := e.evicted()
	if err != nil {
		return append(found, err.Error())
	}
	if least := t.scenario.victims; evicted < least || evicted > t.mostVictims() {
		found = append(found, fmt.Sprintf("%d pods were evicted, want %d", evicted, least))
	}
	return found
}

// evicted returns how many pods of a low priority were deleted.
func (e *env) evicted() (n int, err error) {
	history, err := e.checker.Recorder().History()
	for _, change := range history.Changes {
		pod, is := change.Object.(*v1.Pod)
		if is && change.Deleted && pod.Namespace == e.id && strings.HasPrefix(pod.Name, "low-") {
			n++
		}
	}
	return n, err
}

// Decided is what the checker has decided in all cells.
type Decided struct {
	// Checks are the numbers of checks by invariant.
	Checks map[checker.Invariant]int `json:"checks"`
	// Not are the invariants of which no cell decided anything, with the reason of the last one.
	Not map[checker.Invariant]string `json:"notDecided"`
}

// add adds the report of one cell.
func (d *Decided) add(r checker.Report) {
	if d.Checks == nil {
		d.Checks, d.Not = map[checker.Invariant]int{}, map[checker.Invariant]string{}
	}
	for i, n := range r.Checked {
		d.Checks[i] += n
	}
	for _, line := range r.NotDecided() {
		name, why, _ := strings.Cut(line, ": ")
		d.Not[checker.Invariant(name)] = why
	}
	maps.DeleteFunc(d.Not, func(i checker.Invariant, _ string) bool { return d.Checks[i] > 0 })
}

// lines returns a line of the numbers, and one for each invariant that is not decided.
func (d *Decided) lines() (lines []string) {
	var numbers []string
	for _, row := range checker.Invariants {
		if n := d.Checks[row.Invariant]; n > 0 {
			numbers = append(numbers, fmt.Sprintf("%s %d", row.Invariant, n))
		}
	}
	lines = append(lines, "checks: "+strings.Join(numbers, ", "))
	for _, row := range checker.Invariants {
		if why, not := d.Not[row.Invariant]; not {
			lines = append(lines, fmt.Sprintf("not decided: %s, %s: %s", row.Invariant, row.What, why))
		}
	}
	return lines
}
