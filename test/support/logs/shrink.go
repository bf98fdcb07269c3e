package logs

import (
	"slices"

	"github.com/berthdev/berth/scheduler/sandbox/log"
)

// Shrink returns a small subset of ops that still fails, in their order. It is delta
// debugging: it leaves out halves, then quarters, down to single ops. fails returns the
// index of the op at which ops fail; -1 if they do not, or if they are no valid history.
func Shrink(ops []log.Op, fails func([]log.Op) int) []log.Op {
	at := fails(ops)
	if at < 0 {
		return ops
	}
	ops = ops[:at+1]
	for size := len(ops) / 2; size > 0; size /= 2 {
		for from := 0; from < len(ops)-1; {
			rest := slices.Concat(ops[:from], ops[min(from+size, len(ops)-1):])
			if at := fails(rest); at >= 0 {
				ops = rest[:at+1]
			} else {
				from += size
			}
		}
	}
	return ops
}
