package decision

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/api/v1alpha1"
)

func TestTruncateCountsCharacters(t *testing.T) {
	for name, c := range map[string]struct {
		text, want string
		limit      int
	}{
		"text within the limit is unchanged":       {"four", "four", 4},
		"the limit counts characters, not bytes":   {"üüüü", "üüüü", 4},
		"the ellipsis replaces the last character": {"üüüüü", "üüü…", 4},
		"one character too many, one byte each":    {"fives", "fiv…", 4},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Truncate(c.text, c.limit); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestSummarizeLeavesNothingOut(t *testing.T) {
	total := func(rest []int) (sum int) {
		for _, n := range rest {
			sum += n
		}
		return sum
	}
	for _, c := range []struct{ entries, last int }{{v1alpha1.MaxReasons, 1}, {v1alpha1.MaxReasons + 1, 2}, {1000, 1000 - v1alpha1.MaxReasons + 1}} {
		t.Run(fmt.Sprint(c.entries), func(t *testing.T) {
			all := make([]int, c.entries)
			for i := range all {
				all[i] = 1
			}
			got := Summarize(all, total)
			if diff := cmp.Diff([]int{v1alpha1.MaxReasons, c.last, c.entries}, []int{len(got), got[len(got)-1], total(got)}); diff != "" {
				t.Errorf("number of entries, last entry, sum (-want +got):\n%s", diff)
			}
			if total(all) != c.entries {
				t.Error("Summarize changed its argument")
			}
		})
	}
}
