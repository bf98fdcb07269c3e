package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berthdev/berth/cmd/kubectl-berth/show"
)

func (o *options) printMatrix(m *Matrix) error {
	var err error
	if o.output.Structured() {
		err = o.output.Print(o.Out, m)
	} else {
		_, err = fmt.Fprintln(o.Out, strings.TrimSpace(m.summary()+o.filterTable(m)+o.scoreTable(m)))
	}
	for _, note := range m.Notes {
		fmt.Fprintln(o.ErrOut, show.Wrap("note: "+note, "", "  "))
	}
	return err
}

// summary says what was evaluated, and the result.
func (m *Matrix) summary() string {
	text := fmt.Sprintf("%s: Pending; evaluated with %s", m.Pod, m.Title)
	if m.CurrentNode != "" {
		text = fmt.Sprintf("%s: bound to node %s; evaluated as if it were Pending, with %s", m.Pod, m.CurrentNode, m.Title)
	}
	text = show.Wrap(text, "", "  ") + "\n"
	found := fmt.Sprintf("%d of %s feasible", m.Feasible, show.Count(len(m.Nodes), "node"))
	switch best := m.bestNodes(); {
	case m.Rejected != nil:
		found = fmt.Sprintf("plugin %s rejects the pod before any node is filtered: %s", m.Rejected.Plugin, m.Rejected.Reason)
	case len(best) == 1:
		found += ": the pod would be scheduled to " + best[0]
	case len(best) > 1:
		found += fmt.Sprintf(": the pod would be scheduled to one of %s, which have the same score; the choice depends on where the scheduler starts to iterate over the nodes", joinNames(best))
	}
	return text + show.Wrap(found, "", "  ") + "\n"
}

// joinNames joins the first names, and says how many more there are.
func joinNames(names []string) string {
	const named = 10
	if len(names) <= named {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more nodes", strings.Join(names[:named], ", "), len(names)-named)
}

// filterTable returns the table of the plugins that reject nodes.
func (o *options) filterTable(m *Matrix) string {
	shown, silent := m.Filters, []string(nil)
	if !o.output.Is("wide") {
		shown, silent = nil, nil
		for _, plugin := range m.Filters {
			refuses := func(n Node) bool { return n.Failed || len(n.missing(plugin)) > 0 }
			if slices.ContainsFunc(m.Nodes, refuses) {
				shown = append(shown, plugin)
			} else {
				silent = append(silent, plugin)
			}
		}
	}
	for _, n := range m.Nodes { // what narrowed the set of nodes is not a Filter plugin
		for _, r := range n.Rejections {
			if !slices.Contains(shown, r.Plugin) {
				shown = append(shown, r.Plugin)
			}
		}
	}
	text := "\n"
	if len(shown) > 0 {
		rows, left := m.filterRows(shown, o.limit, o.output.Is("wide"))
		text += show.SplitTable(append([]string{"NODE", "FEASIBLE"}, shown...), rows, 2, o.output.Is("wide")) + omittedText(left)
	}
	if len(silent) > 0 {
		label := "Plugins that reject no node: "
		if m.Rejected != nil {
			label = "Plugins that did not run: "
		}
		text += show.Wrap(label+strings.Join(silent, ", ")+".", "", "  ") + "\n"
	}
	return text
}

// filterRows returns the rows of the table, at most limit. If there are more nodes than
// that, nodes with equal results share a row. left is the number of nodes in no row.
func (m *Matrix) filterRows(plugins []string, limit int, wide bool) (rows [][]string, left int) {
	together := limit > 0 && len(m.Nodes) > limit && !wide
	at, alike := map[string]int{}, []int(nil)
	for i := range m.Nodes {
		n := &m.Nodes[i]
		row := []string{n.Node, "no"}
		if n.Feasible {
			row[1] = "yes"
		}
		for _, plugin := range plugins {
			row = append(row, m.verdict(n, plugin, together))
		}
		key := strings.Join(row[1:], "\x00")
		if known, there := at[key]; there && together {
			alike[known]++
			continue
		}
		if limit > 0 && len(rows) == limit {
			left++
			continue
		}
		at[key] = len(rows)
		rows, alike = append(rows, row), append(alike, 0)
	}
	for i, n := range alike {
		if n > 0 {
			rows[i][0] += fmt.Sprintf(" +%d", n)
		}
	}
	return rows, left
}

// scoreTable returns the table of the scores of the feasible nodes.
func (o *options) scoreTable(m *Matrix) string {
	fit := m.Nodes[:m.Feasible]
	if len(fit) == 0 {
		return ""
	}
	var shown, same []string
	for _, plugin := range m.Scores {
		first, scored := fit[0].Scores[plugin]
		differs := func(n Node) bool { return n.Scores[plugin] != first }
		switch {
		case !scored:
			same = append(same, plugin+" none")
		case o.output.Is("wide") || len(fit) == 1 || slices.ContainsFunc(fit, differs):
			shown = append(shown, plugin)
		default:
			same = append(same, fmt.Sprintf("%s %d", plugin, first))
		}
	}
	var rows [][]string
	for i, n := range fit {
		if o.limit > 0 && i == o.limit {
			break
		}
		row := []string{n.Node, fmt.Sprint(*n.Total)}
		for _, plugin := range shown {
			row = append(row, fmt.Sprint(n.Scores[plugin]))
		}
		rows = append(rows, row)
	}
	text := "\n" + show.SplitTable(append([]string{"NODE", "TOTAL"}, shown...), rows, 2, o.output.Is("wide")) + omittedText(len(fit)-len(rows))
	if len(same) > 0 {
		text += show.Wrap("Same score for every node: "+strings.Join(same, ", ")+".", "", "  ") + "\n"
	}
	return text
}

// omittedText says how many nodes a table leaves out.
func omittedText(left int) string {
	if left <= 0 {
		return ""
	}
	return fmt.Sprintf("… and %s (--limit 0 shows all rows, -o yaml all nodes)\n", show.Count(left, "more node"))
}
