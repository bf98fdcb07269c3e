package compile

import (
	"fmt"
	"strings"

	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// noPlugin says that a plugin is not there, and which was perhaps meant.
func unknownPluginMessage(name string, reg framework.Registry) string {
	if IsDefault(name) {
		return fmt.Sprintf("this build has no plugin %q", name)
	}
	if near := Suggest(name, reg.Names()); near != "" {
		return fmt.Sprintf("no plugin %q, did you mean %q?", name, near)
	}
	return fmt.Sprintf("no plugin %q", name)
}

// mostEdits is the largest number of edits between a name and a guess at it.
const maxEdits = 3

// Nearest returns the candidate that name was most likely meant to be: the one
// with the fewest edits, whatever the case, the first of equals. It is empty
// where none is near: an edit for each three letters at most, one at least, and
// never more than mostEdits.
func Suggest(name string, candidates []string) (best string) {
	fewest := min(maxEdits, max(1, len(name)/3)) + 1
	if fault.FarGuesses {
		fewest = len(name)
	}
	for _, c := range candidates {
		if d := editDistance(strings.ToLower(name), strings.ToLower(c)); d < fewest {
			best, fewest = c, d
		}
	}
	return best
}

// edits counts the letters to insert, remove or replace, and the neighbours to
// swap, to get from a to b (the distance of Damerau and Levenshtein, in which no
// letter is edited twice), three rows at a time.
func editDistance(a, b string) int {
	above, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			replace := last[j]
			if a[i] != b[j] {
				replace++
			}
			row[j+1] = min(replace, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], above[j-1]+1)
			}
		}
		above, last, row = last, row, above
	}
	return last[len(b)]
}
