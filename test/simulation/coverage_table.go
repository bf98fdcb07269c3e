package simulation

import (
	"fmt"
	"slices"
	"strings"
)

// coverageTable is what the histories of a run have met, as text: how many cells of each section, which
// of them this run met first, and all that were never met.
type coverageTable struct {
	sections []section
	// histories is in how many histories each cell was met, and first in which one.
	histories map[cell]int
	first     map[cell]int
}

func newCoverageTable(known knownNames) *coverageTable {
	return &coverageTable{sections: sections(known), histories: map[cell]int{}, first: map[cell]int{}}
}

// add adds what a history met. n is its number.
func (t *coverageTable) add(c *coverage, n int) {
	for at := range c.cells {
		if t.histories[at]++; t.histories[at] == 1 {
			t.first[at] = n
		}
	}
}

// sectionCells are the cells of a section: those that can be met, and those of them that were.
type sectionCells struct {
	possible, met int
	// impossible counts the others by why they cannot be met.
	impossible map[string]int
	// never are the columns that were not met, by row.
	never map[string][]string
	// wrong are cells that were met and cannot be, unlisted those that the section does not
	// have.
	wrong, unlisted []string
}

func (t *coverageTable) cellsOf(s section) sectionCells {
	found := sectionCells{impossible: map[string]int{}, never: map[string][]string{}}
	listed := map[cell]bool{}
	for _, row := range s.rows {
		for _, column := range s.columns {
			at := cell{section: s.name, a: row, b: column}
			listed[at] = true
			why, met := s.impossible(row, column), t.histories[at] > 0
			switch {
			case why != "" && met:
				found.wrong = append(found.wrong, fmt.Sprintf("%s × %s (%s), met in history %d", row, column, why, t.first[at]))
			case why != "":
				found.impossible[why]++
			default:
				found.possible++
			}
			if why == "" && met {
				found.met++
			} else if why == "" {
				found.never[row] = append(found.never[row], column)
			}
		}
	}
	for at := range t.histories {
		if at.section == s.name && !listed[at] {
			found.unlisted = append(found.unlisted, at.names())
		}
	}
	slices.Sort(found.unlisted)
	return found
}

// met is the number of cells that were met, of those that can be.
func (t *coverageTable) met() (met, of int) {
	for _, s := range t.sections {
		cells := t.cellsOf(s)
		met, of = met+cells.met, of+cells.possible
	}
	return met, of
}

// newSince lists the cells that were met first in the history number n or later.
func (t *coverageTable) newSince(n int) (cells []cell) {
	for at, first := range t.first {
		if first >= n && t.isListed(at) {
			cells = append(cells, at)
		}
	}
	slices.SortFunc(cells, func(a, b cell) int {
		return strings.Compare(a.section+a.a+a.b, b.section+b.a+b.b)
	})
	return cells
}

func (t *coverageTable) isListed(at cell) bool {
	return slices.ContainsFunc(t.sections, func(s section) bool { return s.name == at.section })
}

// String prints the table. Cells of a section without columns stand in one line.
func (t *coverageTable) String() string {
	var b strings.Builder
	met, of := t.met()
	fmt.Fprintf(&b, "%d of %d cells are met\n", met, of)
	for _, s := range t.sections {
		t.print(&b, s)
	}
	return b.String()
}

func (t *coverageTable) print(b *strings.Builder, s section) {
	cells := t.cellsOf(s)
	fmt.Fprintf(b, "\n%s: %d of %d\n", s.name, cells.met, cells.possible)
	for _, row := range s.rows {
		columns := cells.never[row]
		switch {
		case len(columns) == 0:
		case len(s.columns) == 1:
			fmt.Fprintf(b, "  never: %s\n", row)
		default:
			fmt.Fprintf(b, "  never: %s: %s\n", row, joinColumns(columns, s.columns))
		}
	}
	for _, why := range sortedKeys(cells.impossible) {
		fmt.Fprintf(b, "  cannot happen, %d cells: %s\n", cells.impossible[why], why)
	}
	for _, wrong := range cells.wrong {
		fmt.Fprintf(b, "  MET ALTHOUGH IT CANNOT: %s\n", wrong)
	}
	if len(cells.unlisted) > 0 {
		fmt.Fprintf(b, "  met, and in no list: %s\n", strings.Join(cells.unlisted, " | "))
	}
}

// joinColumns names columns, or, where they are most of all, the others.
func joinColumns(columns, all []string) string {
	others := slices.DeleteFunc(slices.Clone(all), func(column string) bool { return slices.Contains(columns, column) })
	switch {
	case len(others) == 0:
		return "at all"
	case len(others) < len(columns)/2:
		return "all but " + strings.Join(others, " | ")
	}
	return strings.Join(columns, " | ")
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// wrong lists the cells that were met although a reason says that they cannot be.
func (t *coverageTable) wrong() (all []string) {
	for _, s := range t.sections {
		all = append(all, t.cellsOf(s).wrong...)
	}
	return all
}

// union is the sorted union of lists.
func union(lists ...[]string) []string {
	all := slices.Concat(lists...)
	slices.Sort(all)
	return slices.Compact(all)
}
