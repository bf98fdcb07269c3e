package compare

import (
	"github.com/berthdev/berth/scheduler/sandbox/log"
	"github.com/berthdev/berth/test/replay/run"
)

// Shrink returns as few of ops as still end in a difference, in their order. A
// history that makes no sense any more counts as one without a difference.
func Shrink(config run.Config, ops []log.Op) []log.Op {
	return log.Shrink(ops, func(ops []log.Op) int {
		difference, err := Run(config, &Recorded{Ops: ops}, nil)
		if err != nil || difference == nil {
			return -1
		}
		return difference.Op
	})
}
