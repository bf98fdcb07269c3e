package compare

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berthdev/berth/test/replay/run"
)

// String says what the two decided, and where their scores part.
func (d *Difference) String() string {
	var text strings.Builder
	for _, side := range []struct {
		name    string
		outcome *run.Outcome
	}{{"kube-scheduler", d.Upstream}, {"Berth", d.Berth}} {
		o := side.outcome
		fmt.Fprintf(&text, "%-14s node %q, evaluated %d, feasible %d, %d scored, message %q\n",
			side.name, o.Node, o.Evaluated, o.Feasible, len(o.Scores), message(o))
	}
	nodes := map[string]bool{}
	for node := range d.Upstream.Scores {
		nodes[node] = true
	}
	for node := range d.Berth.Scores {
		nodes[node] = true
	}
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		if theirs, ours := d.Upstream.Scores[node], d.Berth.Scores[node]; !maps.Equal(theirs, ours) {
			fmt.Fprintf(&text, "%s: kube-scheduler scores %v, Berth %v\n", node, theirs, ours)
		}
	}
	return text.String()
}
