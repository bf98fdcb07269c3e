package scheduler

import (
	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/queue"
)

// Components are the parts that hold a Scheduler's state, for readers such as the
// debugger and the simulation. Callers must not change them.
type Components struct {
	Queue   *queue.Queue
	Cache   *cache.Cache
	Waiting *framework.WaitingPods
}

// Components returns the parts of s.
func (s *Scheduler) Components() Components {
	return Components{Queue: s.queue, Cache: s.cache, Waiting: s.waitingPods}
}
