package swap

import (
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/swapmatrix"
)

// arrange lets the profile run, the stream begin, and the pod come to its
// place, and returns what runs then.
func (c *cell) arrange() stamp {
	then := c.place.Answer
	if c.place.Blocks {
		then = c.keeps(then)
	}
	c.gives(c.place.Point, then)
	user{c}.Edit(nil)
	c.early()
	c.stream = streaming(c)
	switch {
	case c.place.ArrivesAfter():
		return c.runs
	case c.place.Where == queue.Held:
		user{c}.Pause()
	case c.place.BlocksLoop():
		c.stopLoop()
	}
	c.comes()
	c.eventually(func(g Gomega) { g.Expect(c.is()).To(BeTrue()) }, "the pod comes to its place")
	c.isAt(c.place.Where, "its place")
	return c.runs
}

// stopLoop sees to it that the loop stands still when the pod is in its place,
// or behind one that was popped before, until it goes on. One cell at a time
// may have that.
func (c *cell) stopLoop() {
	stops.turn.Lock()
	c.goes = stops.turn.Unlock
	var here *stop
	switch {
	case c.where == swapmatrix.Popped:
		here = stops.at(c.name + "/" + subject)
	case c.place.Where == queue.Active:
		here = stops.at(c.name + "/brake")
	default:
		return
	}
	c.goes = func() {
		close(here.free)
		stops.turn.Unlock()
	}
	if c.place.Where == queue.Active {
		c.stream.comes("brake")
		c.eventually(func(g Gomega) { g.Expect(here.reached).To(BeClosed()) }, "the loop stands still")
	}
}

// is says whether the pod is where it is to be: for the queue, a pod in flight
// is a pod in flight.
func (c *cell) is() bool {
	uid := c.pod.UID
	switch {
	case c.place.Point == "Permit":
		return berth.Scheduler().Components().Waiting.Get(uid) != nil
	case c.place.Point == "Bind":
		for _, b := range bindings.Bindings() {
			if b.Namespace == c.name && b.Pod == subject && b.Held {
				return true
			}
		}
		return false
	case c.place.Blocks:
		return c.stuck.Load() > 0
	}
	return c.at() == c.place.Where
}

// at is where the queue has the pod, empty where it has not.
func (c *cell) at() queue.Place { return berth.Scheduler().Components().Queue.Places()[c.pod.UID] }

func (c *cell) isAt(place queue.Place, why string) {
	c.Eventually(c.at).Should(Equal(place), why)
}

// comes creates the pod.
func (c *cell) comes() { c.pod = c.newPod(subject) }

func (c *cell) newPod(name string) *v1.Pod {
	pod := fixture.Pod(c.name + "/" + name).SchedulerName(c.name).Valid()
	c.Expect(admin.Create(c.ctx, pod)).To(Succeed())
	return pod
}

// goOn lets the pod go on; a second time it does nothing.
func (c *cell) goOn() {
	select {
	case <-c.free:
		return
	default:
		close(c.free)
	}
	if c.pod != nil && c.place.Permit != "" {
		if waits := berth.Scheduler().Components().Waiting.Get(c.pod.UID); waits == nil {
			c.faults = append(c.faults, "the pod does not wait on Permit any more")
		} else if c.place.Permit == swapmatrix.Allow {
			waits.Allow(swapmatrix.Decider)
		} else {
			waits.Reject(swapmatrix.Decider, "no")
		}
	}
	c.goes()
}
