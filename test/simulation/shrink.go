package simulation

import (
	"fmt"
	"strings"
)

// shrinkRuns bounds how often a broken seed is played again to find the acts
// that it takes.
const shrinkRuns = 300

// shrink leaves out of a broken seed's plan as many acts as it can with the
// seed still broken in the same way, and tells the story that is left.
func shrink(seed uint64) string {
	w := run(seed, nil, false)
	if w.fault == nil {
		return "is not broken"
	}
	skip := map[int]bool{}
	runs := 0
	for size := len(w.plan) / 2; size > 0; size /= 2 {
		for from := 0; from < len(w.plan) && runs < shrinkRuns; from += size {
			smaller := map[int]bool{}
			for i := range skip {
				smaller[i] = true
			}
			for i := from; i < min(from+size, len(w.plan)); i++ {
				smaller[i] = true
			}
			if len(smaller) == len(skip) {
				continue
			}
			runs++
			if other := run(seed, smaller, false); other.fault != nil && alike(other.fault, w.fault) {
				skip = smaller
			}
		}
	}
	last := run(seed, skip, true)
	return fmt.Sprintf("%v\n%d of %d acts are left:\n%s", last.fault, len(last.plan)-len(skip), len(last.plan), strings.Join(last.story, "\n"))
}

// alike says whether two faults are of one kind: the same words, whatever the
// names and numbers.
func alike(a, b error) bool { return words(a) == words(b) }

func words(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, text)
}
