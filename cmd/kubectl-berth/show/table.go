// Package show formats the output of the plugin: tables, objects and sentences, in lines of
// at most Width characters where possible.
package show

import (
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/liggitt/tabwriter"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/berthdev/berth/api/v1alpha1"
)

// Width is the most characters that a line of output should have.
const Width = 120

// padding and minColumnWidth are the values that the table printer of cli-runtime uses.
const (
	padding        = 3
	minColumnWidth = 6
)

// Column is a column of a Table. A Wide one is shown with -o wide only.
type Column struct {
	Name string
	Wide bool
}

// Columns returns columns with these names.
func Columns(names ...string) []Column {
	columns := make([]Column, len(names))
	for i, name := range names {
		columns[i].Name = name
	}
	return columns
}

// Table prints rows in columns whose position does not change as more rows are added.
// Without -o wide, the last column is truncated so that a row fits into Width.
type Table struct {
	columns []Column
	wide    bool
	printer printers.ResourcePrinter
	out     *tabwriter.Writer
	widths  []int
}

// NewTable returns a table without rows.
func NewTable(out io.Writer, wide bool, columns []Column) *Table {
	t := &Table{
		wide: wide, printer: printers.NewTablePrinter(printers.PrintOptions{Wide: wide}),
		out: printers.GetNewTabWriter(out),
	}
	for _, c := range columns {
		if wide || !c.Wide {
			t.columns = append(t.columns, c)
			t.widths = append(t.widths, max(minColumnWidth, len(c.Name)+padding))
		}
	}
	return t
}

// Print prints rows. Each must have a cell for each column that is shown.
func (t *Table) Print(rows ...[]any) error {
	if len(rows) == 0 {
		return nil
	}
	table := &metav1.Table{}
	for _, c := range t.columns {
		table.ColumnDefinitions = append(table.ColumnDefinitions, metav1.TableColumnDefinition{Name: c.Name, Type: "string"})
	}
	for _, row := range rows {
		for i, cell := range row[:len(row)-1] {
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(fmt.Sprint(cell))+padding)
		}
	}
	for _, row := range rows {
		table.Rows = append(table.Rows, metav1.TableRow{Cells: t.truncateLast(row)})
	}
	if err := t.printer.PrintObj(table, t.out); err != nil {
		return err
	}
	return t.out.Flush()
}

func (t *Table) truncateLast(row []any) []any {
	if t.wide {
		return row
	}
	left := Width
	for _, width := range t.widths[:len(t.widths)-1] {
		left -= width
	}
	last := len(row) - 1
	cut := append([]any(nil), row...)
	cut[last] = Truncate(fmt.Sprint(row[last]), max(left, len(t.columns[last].Name), 20))
	return cut
}

// unresolvable is the code of a rejection that preemption cannot resolve.
const unresolvable = "UnschedulableAndUnresolvable"

// Rejections prints a table of the plugins that reject nodes: how many, and why.
func Rejections(out io.Writer, rejections []v1alpha1.Rejection, wide bool) error {
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
