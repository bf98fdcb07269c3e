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
		_, err = fmt.Fprintln(o.Out, strings.TrimSpace(m.title()+o.filters(m)+o.scores(m)))
	}
	for _, note := range m.Notes {
		fmt.Fprintln(o.ErrOut, show.Wrap("note: "+note, "", "  "))
	}
	return err
}

// title says what was asked, and what came of it.
func (m *Matrix) title() string {
	text := fmt.Sprintf("Pod %s waits", m.Pod)
	if m.On != "" {
		text = fmt.Sprintf("Pod %s is on node %s; this is how it would be decided now, were it not there", m.Pod, m.On)
	}
	text = show.Wrap(text+"; "+m.Title+".", "", "  ") + "\n"
	fit := "fit"
	if m.Fit == 1 {
		fit = "fits"
	}
	found := fmt.Sprintf("%d of %s %s", m.Fit, show.Count(len(m.Nodes), "node"), fit)
	switch best := m.best(); {
	case m.Refused != nil:
		found = fmt.Sprintf("%s refuses the pod itself, before any node is asked about: %s", m.Refused.Plugin, m.Refused.Reason)
	case len(best) == 1:
		found += ": it would go to " + best[0]
	case len(best) > 1:
		found += fmt.Sprintf(": it would go to one of %s, which score the same; where the walk over the nodes begins decides", some(best))
	}
	return text + show.Wrap(strings.TrimSuffix(found, ".")+".", "", "  ") + "\n"
}

// some names the first of many.
func some(names []string) string {
	const named = 10
	if len(names) <= named {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more nodes", strings.Join(names[:named], ", "), len(names)-named)
}

// filters is the table of who refuses what.
func (o *options) filters(m *Matrix) string {
	shown, silent := m.Filters, []string(nil)
	if !o.output.Is("wide") {
		shown, silent = nil, nil
		for _, plugin := range m.Filters {
			refuses := func(n Node) bool { return n.Failed || len(n.objections(plugin)) > 0 }
			if slices.ContainsFunc(m.Nodes, refuses) {
				shown = append(shown, plugin)
			} else {
				silent = append(silent, plugin)
			}
		}
	}
	for _, n := range m.Nodes { // what narrowed the search stands in no chain under its name
		for _, r := range n.Refusals {
			if !slices.Contains(shown, r.Plugin) {
				shown = append(shown, r.Plugin)
			}
		}
	}
	text := "\n"
	if len(shown) > 0 {
		rows, left := m.verdicts(shown, o.limit, o.output.Is("wide"))
		text += show.Bands(append([]string{"NODE", "FITS"}, shown...), rows, 2, o.output.Is("wide")) + more(left)
	}
	if len(silent) > 0 {
		said := "Refuse no node: "
		if m.Refused != nil {
			said = "Not asked: "
		}
		text += show.Wrap(said+strings.Join(silent, ", ")+".", "", "  ") + "\n"
	}
	return text
}

// verdicts are the rows of the table, at most limit; where there are more nodes,
// those of which the same is said share one. It returns how many nodes are in none.
func (m *Matrix) verdicts(plugins []string, limit int, wide bool) (rows [][]string, left int) {
	together := limit > 0 && len(m.Nodes) > limit && !wide
	at, alike := map[string]int{}, []int(nil)
	for i := range m.Nodes {
		n := &m.Nodes[i]
		row := []string{n.Node, "no"}
		if n.Fits {
			row[1] = "yes"
		}
		for _, plugin := range plugins {
			row = append(row, m.says(n, plugin, together))
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

// scores is the table of what the nodes that fit are given.
func (o *options) scores(m *Matrix) string {
	fit := m.Nodes[:m.Fit]
	if len(fit) == 0 {
		return ""
	}
	var shown, same []string
	for _, plugin := range m.Scores {
		first, scored := fit[0].Scores[plugin]
		differs := func(n Node) bool { return n.Scores[plugin] != first }
		switch {
		case !scored:
			same = append(same, plugin+" nothing")
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
	text := "\n" + show.Bands(append([]string{"NODE", "TOTAL"}, shown...), rows, 2, o.output.Is("wide")) + more(len(fit)-len(rows))
	if len(same) > 0 {
		text += show.Wrap("Give every node the same: "+strings.Join(same, ", ")+".", "", "  ") + "\n"
	}
	return text
}

// more says what a table leaves out.
func more(left int) string {
	if left <= 0 {
		return ""
	}
	return fmt.Sprintf("… and %s; --limit 0 shows all, -o yaml says all of them.\n", show.Count(left, "more node"))
}
