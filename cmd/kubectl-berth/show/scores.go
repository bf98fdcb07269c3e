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

// Plugins are those that scored nodes, by name.
func ScoredPlugins(nodes []decision.NodeScore) []string {
	plugins := map[string]bool{}
	for _, node := range nodes {
		for name := range node.Plugins {
			plugins[name] = true
		}
	}
	return slices.Sorted(maps.Keys(plugins))
}

// Scores are nodes, a column each, with what each plugin gave. Where they are too
// many for a line, they go on below, an empty line in between. marks stand behind
// the names of the nodes that have one.
func ScoreTables(nodes []decision.NodeScore, marks map[string]string) string {
	plugins, text := ScoredPlugins(nodes), ""
	for rest := nodes; len(rest) > 0; {
		n := nodesPerTable(plugins, rest, marks)
		text += scoreTable(plugins, rest[:n], marks) + "\n"
		rest = rest[n:]
	}
	return text
}

// fitting is how many of the nodes have room in one line, at least one.
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
			share, told := n.Plugins[name]
			if !told && n.Plugins == nil {
				return "?"
			}
			return fmt.Sprint(share)
		})
	}
	row("total", func(n decision.NodeScore) string { return fmt.Sprint(n.Score) })
	_ = w.Flush() // into memory
	return out.String()
}
