package compile

import (
	"fmt"
	"strings"

	"github.com/berthdev/berth/scheduler/framework"
)

// noPlugin says that a plugin is not there, and which was perhaps meant.
func noPlugin(name string, reg framework.Registry) string {
	if IsDefault(name) {
		return fmt.Sprintf("this build has no plugin %q", name)
	}
	if near := nearest(name, reg.Names()); near != "" {
		return fmt.Sprintf("no plugin %q, did you mean %q?", name, near)
	}
	return fmt.Sprintf("no plugin %q", name)
}

// Nearest returns the candidate that name was most likely meant to be; empty
// where there is none, or where more of it would have to change than stays.
func Nearest(name string, candidates []string) string {
	near := nearest(name, candidates)
	if 2*edits(strings.ToLower(name), strings.ToLower(near)) > len(name) {
		return ""
	}
	return near
}

// nearest returns the candidate with the fewest edits from name, whatever the
// case; the first of equals; nothing when there is no candidate.
func nearest(name string, candidates []string) string {
	best, fewest := "", -1
	for _, c := range candidates {
		if d := edits(strings.ToLower(name), strings.ToLower(c)); fewest < 0 || d < fewest {
			best, fewest = c, d
		}
	}
	return best
}

// edits counts the letters to insert, remove or replace to get from a to b
// (Levenshtein's distance, one row at a time).
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
