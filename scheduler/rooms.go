package scheduler

import (
	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/queue"
)

// Rooms are what a Scheduler keeps its state in. They are for those who have
// to look in from outside, such as the simulation; nobody may change them.
type Components struct {
	Queue   *queue.Queue
	Cache   *cache.Cache
	Waiting *framework.WaitingPods
}

// Rooms returns the rooms of s.
func (s *Scheduler) Components() Components {
	return Components{Queue: s.queue, Cache: s.cache, Waiting: s.waitingPods}
}
