package scheduler

import (
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/test/cells"
	"github.com/berthdev/berth/test/fakecluster"
)

// spot is a place, and how it is played here.
type testPlace struct {
	cells.Place
	// unled says that nobody leads before the change, and pops that the test
	// pops the pod.
	noLeader, popped bool
}

func newTestPlace(name string, p cells.Place) testPlace {
	pops := name == cells.Popped
	return testPlace{Place: p, noLeader: pops || p.ArrivesAfter() || p.Where == queue.Active, popped: pops}
}

// put sees to it that the pod comes to the place, and stays.
func (c *swapCase) preparePlace(s testPlace) {
	then := s.Answer
	if s.Blocks {
		then = c.blockAnswer(then)
	}
	switch {
	case s.Where == queue.Held:
		c.pause(true)
	case s.Point == "Bind":
		c.cluster.Inject(fakecluster.Fault{Verb: "bind", Before: func() { <-c.unblocked }})
	case s.Point != "":
		c.answers[s.Point] = then
	}
}

// letGo lets the pod go on.
func (c *swapCase) unblock(s testPlace) {
	if s.Blocks {
		close(c.unblocked)
	}
	switch waits := c.waitingPods.Get(webPod("a").UID); s.Permit {
	case cells.Allow:
		waits.Allow(cells.Decider)
	case cells.Reject:
		waits.Reject(cells.Decider, "no")
	}
}

// said is how counts tells of one pod there.
func countsAt(where queue.Place) string {
	return map[queue.Place]string{
		"": "", queue.Active: "1 active", queue.Backoff: "1 backoff", queue.Unschedulable: "1 unschedulable",
		queue.Gated: "1 gated", queue.Held: "1 parked", queue.InFlight: "1 in flight",
	}[where]
}
