package crashes

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Summary is the result of a run.
type Summary struct {
	// FaultPoints is the number of places in the code that write, and Unreachable which of
	// them no scenario can reach.
	FaultPoints int      `json:"faultPoints"`
	Unreachable []string `json:"unreachable,omitempty"`
	// Cells is the number of cells of all scenarios that were learned; Outcomes are those that
	// were run.
	Cells    int       `json:"cells"`
	Outcomes []Outcome `json:"outcomes"`
	// NotRun are the cells that could not be run, with the reason: a leader lost the Lease
	// while the scenario was prepared, since the machine was busy.
	NotRun []string `json:"notRun,omitempty"`
	// LostLeases counts the leaders that lost the Lease because the machine was busy.
	LostLeases int `json:"lostLeases"`
	// Decided is what the checker has decided.
	Decided Decided `json:"decided"`
}

// NewSummary returns a summary of no cells.
func NewSummary(points []FaultPoint) *Summary {
	r := &Summary{FaultPoints: len(points)}
	for _, row := range Rows {
		if row.Scenario == "" {
			r.Unreachable = append(r.Unreachable, fmt.Sprintf("%s: %s", row.Point, row.Why))
		}
	}
	return r
}

// Violations returns what was found, a line for each.
func (r *Summary) Violations() (lines []string) {
	for _, o := range r.Outcomes {
		for _, violation := range o.Violations {
			lines = append(lines, fmt.Sprintf("%s: %s", o.Cell, violation))
		}
	}
	return lines
}

// NotReached returns the cells at whose moment the process was not killed.
func (r *Summary) NotReached() (lines []string) {
	for _, o := range r.Outcomes {
		if !o.Reached {
			lines = append(lines, o.Cell.String())
		}
	}
	return lines
}

// String returns a page.
func (r *Summary) String() string {
	var text strings.Builder
	var seconds []float64
	for _, o := range r.Outcomes {
		seconds = append(seconds, o.Seconds)
	}
	slices.Sort(seconds)
	violations, missed := r.Violations(), r.NotReached()
	fmt.Fprintf(&text, "%d fault points in the code, %d of them unreachable; %d cells, %d run, %d could not be run, %d never reached; %d violations; %d Leases lost because the machine was busy",
		r.FaultPoints, len(r.Unreachable), r.Cells, len(r.Outcomes), len(r.NotRun), len(missed), len(violations), r.LostLeases)
	if len(seconds) > 0 {
		fmt.Fprintf(&text, "; a cell took %.1f s (median), %.1f s at most", seconds[len(seconds)/2], seconds[len(seconds)-1])
	}
	for _, line := range r.Decided.lines() {
		fmt.Fprintf(&text, "\n  %s", line)
	}
	for _, list := range []struct {
		title string
		lines []string
	}{{"unreachable", r.Unreachable}, {"violation", violations}, {"not run", r.NotRun}, {"not reached", missed}} {
		for _, line := range list.lines {
			fmt.Fprintf(&text, "\n  %s: %s", list.title, line)
		}
	}
	return text.String()
}

// Write writes the summary as JSON.
func (r *Summary) Write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
