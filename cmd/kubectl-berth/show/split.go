package show

import (
	"strings"
	"unicode/utf8"
)

// maxCellWidth is the most characters of a cell of SplitTable, except in wide output.
const maxCellWidth = 40

// SplitTable formats a table that may have more columns than fit into Width. Columns that do
// not fit follow in further tables below, separated by an empty line; each of them begins
// with the first pinned columns. With wide, no cell is truncated and no table is split.
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

// bandLine formats the pinned cells of a row and its cells from up to, but not including,
// to.
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
