package decision

import (
	"unicode/utf8"

	"github.com/berthdev/berth/api/v1alpha1"
)

// What a SchedulingDecision has room for: characters of its message, and entries
// of its lists.
const (
	MaxExplanation = v1alpha1.MaxExplanation
	MaxReasons     = v1alpha1.MaxReasons
)

// Clip cuts text to at most limit characters, the last of which then says so.
func Truncate(text string, limit int) string {
	if len(text) <= limit || utf8.RuneCountInString(text) <= limit {
		return text
	}
	end, kept := 0, 0
	for end = range text {
		if kept == limit-1 {
			break
		}
		kept++
	}
	return text[:end] + "…"
}

// Summed is all where there is room for it, MaxReasons entries. Else sum makes
// the last entry of what is too much, of which there are two at least: nothing is
// left out without a word.
func Summarize[T any](all []T, sum func(rest []T) T) []T {
	if len(all) <= MaxReasons {
		return all
	}
	kept := all[: MaxReasons-1 : MaxReasons-1]
	return append(kept, sum(all[MaxReasons-1:]))
}
