package decision

import (
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
)

// Explanation says why one pod is pending, or where it was bound: the content of its
// SchedulingDecision. It is a value: nobody changes it after it was put into the queue.
type Explanation struct {
	Namespace, Pod string
	UID            types.UID
	// Status names nodes whether or not the tenant may read them. The writer leaves out what
	// Nodes forbids.
	Status v1alpha1.SchedulingDecisionStatus
	// Nodes says whether the SchedulingDecision may name nodes.
	Nodes bool
}

// Truncate cuts text to at most limit characters; the last one is then an ellipsis.
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

// TruncateBytes cuts text to at most limit bytes, between two characters; it ends in mark
// then.
func TruncateBytes(text string, limit int, mark string) string {
	if len(text) <= limit {
		return text
	}
	end := limit - len(mark)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + mark
}

// Summarize returns all when it has at most v1alpha1.MaxReasons entries. Otherwise it keeps
// one entry less than that and appends sum's entry for the rest, which is at least two.
func Summarize[T any](all []T, sum func(rest []T) T) []T {
	const limit = v1alpha1.MaxReasons
	if len(all) <= limit {
		return all
	}
	return append(all[:limit-1:limit-1], sum(all[limit-1:]))
}
