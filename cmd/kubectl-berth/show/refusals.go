package show

import (
	"io"

	"github.com/berthdev/berth/scheduler/decision"
)

// unresolvable is the code of a rejection that preemption cannot resolve.
const unresolvable = "UnschedulableAndUnresolvable"

// Rejections prints a table of the plugins that reject nodes: how many, and why.
func Rejections(out io.Writer, rejections []decision.Rejection, wide bool) error {
	var rows [][]any
	for _, r := range rejections {
		reason := r.Reason
		if r.Code == unresolvable {
			reason += " (not resolvable by preemption)"
		}
		if r.ExampleNode != "" {
			reason += ": " + r.ExampleNode
			if r.Nodes > 1 {
				reason += ", …"
			}
		}
		rows = append(rows, []any{OrNone(r.Plugin), r.Nodes, reason})
	}
	return NewTable(out, wide, Columns("Plugin", "Nodes", "Reason")).Print(rows...)
}
