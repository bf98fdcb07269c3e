package scheduler

import (
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/test/cells"
	"github.com/berthdev/berth/test/fakecluster"
)

// spot is a place, and how it is played here.
type spot struct {
	cells.Place
	// unled says that nobody leads before the change, and pops that the test
	// pops the pod.
	unled, pops bool
}

func newSpot(name string, p cells.Place) spot {
	pops := name == cells.Popped
	return spot{Place: p, unled: pops || p.Unseen() || p.Where == queue.Active, pops: pops}
}

// put sees to it that the pod comes to the place, and stays.
func (c *cell) put(s spot) {
	then := s.Then
	if s.Stuck {
		then = c.stuck(then)
	}
	switch {
	case s.Where == queue.Parked:
		c.pause(true)
	case s.Point == "Bind":
		c.cluster.Inject(fakecluster.Fault{Verb: "bind", Before: func() { <-c.free }})
	case s.Point != "":
		c.roles[s.Point] = then
	}
}

// letGo lets the pod go on.
func (c *cell) letGo(s spot) {
	if s.Stuck {
		close(c.free)
	}
	switch waits := c.waiting.Get(web("a").UID); s.Permit {
	case cells.Allow:
		waits.Allow(cells.Judge)
	case cells.Reject:
		waits.Reject(cells.Judge, "no")
	}
}

// said is how counts tells of one pod there.
func said(where queue.Place) string {
	return map[queue.Place]string{
		"": "", queue.Active: "1 active", queue.Backoff: "1 backoff", queue.Unschedulable: "1 unschedulable",
		queue.Gated: "1 gated", queue.Parked: "1 parked", queue.InFlight: "1 in flight",
	}[where]
}
