package compare

import (
	"slices"

	"github.com/berthdev/berth/test/replay/log"
	"github.com/berthdev/berth/test/replay/run"
)

// Shrink returns as few of ops as still end in a difference, in their order:
// delta debugging, by halves, quarters and so on down to single ops. A history
// that makes no sense any more counts as one without a difference.
func Shrink(config run.Config, ops []log.Op) []log.Op {
	return shrink(ops, func(ops []log.Op) int {
		difference, err := Run(config, &Recorded{Ops: ops}, nil)
		if err != nil || difference == nil {
			return -1
		}
		return difference.Op
	})
}

// shrink is Shrink for any fault, which breaks returns the place of, or -1.
func shrink(ops []log.Op, breaks func([]log.Op) int) []log.Op {
	at := breaks(ops)
	if at < 0 {
		return ops
	}
	ops = ops[:at+1]
	for size := len(ops) / 2; size > 0; size /= 2 {
		for from := 0; from < len(ops)-1; {
			rest := slices.Concat(ops[:from], ops[min(from+size, len(ops)-1):])
			if at := breaks(rest); at >= 0 {
				ops = rest[:at+1]
			} else {
				from += size
			}
		}
	}
	return ops
}
