package show

import (
	"strings"
	"unicode/utf8"
)

// cellWidth is the most characters that a cell of Bands has, but for wide ones.
const maxCellWidth = 40

// Bands are a table with more columns than a line has room for: those that do not
// fit go on below, an empty line in between, behind the first pinned ones, which
// every band has. wide cuts and breaks nothing.
func SplitTable(header []string, rows [][]string, pinned int, wide bool) string {
	table := append([][]string{header}, rows...)
	widths := make([]int, len(header))
	for i, row := range table {
		table[i] = append([]string(nil), row...)
		for c := range row {
			if c >= pinned && i > 0 && !wide {
				table[i][c] = Truncate(row[c], maxCellWidth)
			}
			widths[c] = max(widths[c], utf8.RuneCountInString(table[i][c]))
		}
	}
	text := ""
	for from := pinned; ; {
		to := from
		for left := Width - totalWidth(widths[:pinned]); to < len(header); to++ {
			if left -= widths[to] + padding; left+padding < 0 && to > from && !wide {
				break
			}
		}
		for _, row := range table {
			text += bandLine(row, widths, pinned, from, to) + "\n"
		}
		if from = to; from >= len(header) {
			return text
		}
		text += "\n"
	}
}

func totalWidth(widths []int) (n int) {
	for _, w := range widths {
		n += w + padding
	}
	return n
}

// line is a row's pinned cells and some of the others.
func bandLine(row []string, widths []int, pinned, from, to int) string {
	var b strings.Builder
	cell := func(c int) {
		b.WriteString(row[c] + strings.Repeat(" ", widths[c]-utf8.RuneCountInString(row[c])+padding))
	}
	for c := range pinned {
		cell(c)
	}
	for c := from; c < to; c++ {
		cell(c)
	}
	return strings.TrimRight(b.String(), " ")
}
