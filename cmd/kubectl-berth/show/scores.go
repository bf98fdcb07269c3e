package show

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"k8s.io/cli-runtime/pkg/printers"

	"github.com/berthdev/berth/scheduler/decision"
)

// ScoredPlugins returns the names of the plugins that scored the nodes, sorted.
func ScoredPlugins(nodes []decision.NodeScore) []string {
	plugins := map[string]bool{}
	for _, node := range nodes {
		for name := range node.Plugins {
			plugins[name] = true
		}
	}
	return slices.Sorted(maps.Keys(plugins))
}

// ScoreTables formats the scores of nodes, with a column for each node and a row for each
// plugin. Nodes that do not fit into Width follow in further tables below, separated by an
// empty line. marks are appended to the names of nodes.
func ScoreTables(nodes []decision.NodeScore, marks map[string]string) string {
	plugins, text := ScoredPlugins(nodes), ""
	for rest := nodes; len(rest) > 0; {
		n := nodesPerTable(plugins, rest, marks)
		text += scoreTable(plugins, rest[:n], marks) + "\n"
		rest = rest[n:]
	}
	return text
}

// nodesPerTable returns how many of the nodes fit into one table, at least one.
func nodesPerTable(plugins []string, nodes []decision.NodeScore, marks map[string]string) int {
	left := Width - len("total") - padding
	for _, name := range plugins {
		left = min(left, Width-len(name)-padding)
	}
	n := 0
	for ; n < len(nodes); n++ {
		left -= utf8.RuneCountInString(nodes[n].Node+marks[nodes[n].Node]) + padding
		if left < 0 && n > 0 {
			break
		}
	}
	return n
}

func scoreTable(plugins []string, nodes []decision.NodeScore, marks map[string]string) string {
	var out bytes.Buffer
	w := printers.GetNewTabWriter(&out)
	row := func(title string, cell func(decision.NodeScore) string) {
		fmt.Fprint(w, title)
		for _, node := range nodes {
			fmt.Fprint(w, "\t", cell(node))
		}
		fmt.Fprintln(w)
	}
	row("PLUGIN", func(n decision.NodeScore) string { return n.Node + marks[n.Node] })
	for _, name := range plugins {
		row(name, func(n decision.NodeScore) string {
			score, scored := n.Plugins[name]
			if !scored && n.Plugins == nil {
				return "?"
			}
			return fmt.Sprint(score)
		})
	}
	row("total", func(n decision.NodeScore) string { return fmt.Sprint(n.Score) })
	_ = w.Flush() // into memory
	return out.String()
}
