package compile

import (
	"fmt"
	"strings"

	"github.com/berthdev/berth/scheduler/framework"
)

// unknownPluginMessage says that there is no plugin called name, and suggests one of a
// similar name.
func unknownPluginMessage(name string, reg framework.Registry) string {
	if IsDefault(name) {
		return fmt.Sprintf("this build has no plugin %q", name)
	}
	if near := Suggest(name, reg.Names()); near != "" {
		return fmt.Sprintf("no plugin %q, did you mean %q?", name, near)
	}
	return fmt.Sprintf("no plugin %q", name)
}

// maxEdits bounds the edit distance between a name and its suggestion.
const maxEdits = 3

// Suggest returns the candidate that name was probably meant to be: the one with the
// smallest edit distance, ignoring case; of equals the first. It returns "" where no
// candidate is near enough: one edit per three letters of name, at least one and at
// most maxEdits.
func Suggest(name string, candidates []string) (best string) {
	fewest := min(maxEdits, max(1, len(name)/3)) + 1
	for _, c := range candidates {
		if d := editDistance(strings.ToLower(name), strings.ToLower(c)); d < fewest {
			best, fewest = c, d
		}
	}
	return best
}

// editDistance counts the letters to insert, remove or replace, and the neighbours to
// swap, to get from a to b. It is the distance of Damerau and Levenshtein in which no
// letter is edited twice, computed with three rows.
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
