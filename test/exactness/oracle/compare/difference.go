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
	for _, node := range slices.Sorted(maps.Keys(union(d.Upstream.Candidates, d.Berth.Candidates))) {
		if theirs, ours := d.Upstream.Candidates[node], d.Berth.Candidates[node]; !sameVictims(theirs, ours) {
			fmt.Fprintf(&text, "%s: kube-scheduler would evict %+v, Berth %+v\n", node, theirs, ours)
		}
	}
	if d.Upstream.Nominated != d.Berth.Nominated {
		fmt.Fprintf(&text, "kube-scheduler nominates %q, Berth %q\n", d.Upstream.Nominated, d.Berth.Nominated)
	}
	for _, node := range slices.Sorted(maps.Keys(union(d.Upstream.Scores, d.Berth.Scores))) {
		if theirs, ours := d.Upstream.Scores[node], d.Berth.Scores[node]; !maps.Equal(theirs, ours) {
			fmt.Fprintf(&text, "%s: kube-scheduler scores %v, Berth %v\n", node, theirs, ours)
		}
	}
	return text.String()
}

// union holds the keys of both.
func union[V any](a, b map[string]V) map[string]V {
	both := maps.Clone(a)
	if both == nil {
		both = map[string]V{}
	}
	maps.Copy(both, b)
	return both
}
