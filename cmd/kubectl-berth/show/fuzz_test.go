package show

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzText formats any text: it is wrapped without a change, and truncated to its limit.
func FuzzText(f *testing.F) {
	f.Add("0/500 nodes are available: 480 Insufficient cpu.", uint8(2), uint16(20))
	f.Add(strings.Repeat("üb ", 100)+"\n\t\x00", uint8(0), uint16(1))
	f.Add(strings.Repeat("x", 300), uint8(11), uint16(0))
	f.Fuzz(func(t *testing.T, text string, deep uint8, limit uint16) {
		if len(text) > 4096 {
			return
		}
		indent := strings.Repeat(" ", int(deep%20))
		wrapped := Wrap(text, indent, "  ")
		if words(wrapped) != words(indent+text) {
			t.Fatalf("%q is wrapped to %q", text, wrapped)
		}
		for line := range strings.SplitSeq(wrapped, "\n") {
			long := utf8.RuneCountInString(line) > Width
			if long && strings.Contains(strings.TrimLeft(line, " "), " ") && !strings.Contains(text, "\n") {
				t.Fatalf("a line of %d characters has several words: %q", utf8.RuneCountInString(line), line)
			}
		}
		most := int(limit)%200 + 1
		if cut := Truncate(text, most); utf8.RuneCountInString(cut) > most {
			t.Fatalf("%q is truncated to %q, the limit is %d", text, cut, most)
		}
	})
}

// words returns a text without white space.
func words(text string) string { return strings.Join(strings.Fields(text), "") }

// FuzzSplitTable formats any cells as a table: each is there, and the columns of every band are
// aligned.
func FuzzSplitTable(f *testing.F) {
	f.Add("NODE\tNodeResourcesFit\tTaintToleration", "n1\t587\tno\nn2\t12\t"+strings.Repeat("x", 90), uint8(1), false)
	f.Add("a\tb", "\xff\tü", uint8(0), true)
	f.Fuzz(func(t *testing.T, head, body string, pinned uint8, wide bool) {
		if len(head)+len(body) > 2048 || strings.Contains(head, "\n") {
			return
		}
		header := strings.Split(head, "\t")
		var rows [][]string
		for line := range strings.SplitSeq(body, "\n") {
			row := strings.Split(line, "\t")
			if len(row) != len(header) {
				return
			}
			rows = append(rows, row)
		}
		first := min(int(pinned)%3, len(header)-1)
		text := SplitTable(header, rows, first, wide)
		bands := strings.Split(strings.TrimSuffix(text, "\n"), "\n\n")
		if wide && len(bands) != 1 && !strings.Contains(text, "\n\n") {
			t.Fatalf("%d tables of a wide one", len(bands))
		}
		for _, title := range header {
			if !strings.Contains(words(text), words(title)) {
				t.Fatalf("no column %q:\n%s", title, text)
			}
		}
		if n := strings.Count(text, "\n"); n < len(rows)+1 {
			t.Fatalf("%d lines of %d rows", n, len(rows))
		}
	})
}
