package simulation

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/utils/clock"
)

// startTime is the time at which every history begins.
var startTime = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// virtualClock stands still until advance is called. A task that asks for a channel (After,
// Tick, C) waits in that call and gets a channel with a value in it, so that a select in the
// product returns at once.
type virtualClock struct {
	tasks *executor
	// replica is the one whose tasks the timers start; nil for the world outside.
	replica *replica
	// now is the same in all clocks of a history. read returns what this one shows.
	now     time.Time
	waiters []*waiter // by time
	skew
}

// waiter is a function that is called at a time.
type waiter struct {
	at   time.Time
	call func() // nil: a task waits for the time
	// periodic says that it belongs to a ticker.
	periodic bool
}

var _ clock.WithTickerAndDelayedExecution = &virtualClock{}

func (c *virtualClock) Now() time.Time                  { c.tasks.noteClockRead(); return c.read() }
func (c *virtualClock) Since(t time.Time) time.Duration { return c.read().Sub(t) }

// add adds a waiter behind those of the same time.
func (c *virtualClock) add(at time.Time, call func()) *waiter {
	a := &waiter{at: at, call: call}
	i, _ := slices.BinarySearchFunc(c.waiters, at, func(other *waiter, at time.Time) int {
		return cmp.Or(other.at.Compare(at), -1)
	})
	c.waiters = slices.Insert(c.waiters, i, a)
	return a
}

func (c *virtualClock) remove(a *waiter) bool {
	before := len(c.waiters)
	c.waiters = slices.DeleteFunc(c.waiters, func(other *waiter) bool { return other == a })
	return len(c.waiters) < before
}

// advance moves the time to the next waiter and calls all that are due. It returns false where
// there is none.
func (c *virtualClock) advance() bool {
	if len(c.waiters) == 0 {
		return false
	}
	if at := c.waiters[0].at; at.After(c.now) {
		c.now = at
	}
	c.callDue()
	return true
}

// callDue calls all waiters that are due.
func (c *virtualClock) callDue() {
	for len(c.waiters) > 0 && !c.waiters[0].at.After(c.now) {
		a := c.waiters[0]
		c.waiters = c.waiters[1:]
		if a.call != nil {
			a.call()
		}
	}
}

// onlyPeriodic says that no waiter but those of tickers is left.
func (c *virtualClock) onlyPeriodic() bool {
	return !slices.ContainsFunc(c.waiters, func(a *waiter) bool { return !a.periodic })
}

// waitUntil lets the running task wait until the given time.
func (c *virtualClock) waitUntil(at time.Time, periodic bool) <-chan time.Time {
	a := c.add(at, nil)
	a.periodic = periodic
	c.tasks.yield(func() bool { return !c.now.Before(a.at) })
	reached := make(chan time.Time, 1)
	reached <- c.read()
	return reached
}

func (c *virtualClock) After(d time.Duration) <-chan time.Time {
	return c.waitUntil(c.now.Add(d), false)
}
func (c *virtualClock) Sleep(d time.Duration) { c.waitUntil(c.now.Add(d), false) }

// Tick and NewTicker make tickers that drop no tick, but for those of a machine that stood still.
func (c *virtualClock) Tick(d time.Duration) <-chan time.Time { return c.NewTicker(d).C() }

func (c *virtualClock) NewTicker(d time.Duration) clock.Ticker {
	return &ticker{clock: c, period: d, next: c.now.Add(d)}
}

type ticker struct {
	clock  *virtualClock
	period time.Duration
	next   time.Time
}

func (t *ticker) C() <-chan time.Time {
	if t.clock.two && t.next.Before(t.clock.now) {
		t.next = t.clock.now
	}
	reached := t.clock.waitUntil(t.next, true)
	t.next = t.next.Add(t.period)
	return reached
}

func (t *ticker) Stop() {}

// AfterFunc runs f in a task of its own.
func (c *virtualClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	t := &timer{clock: c, fire: func() { c.tasks.start("timer", f).replica = c.replica }}
	t.waiter = c.add(c.now.Add(d), t.fire)
	return t
}

func (c *virtualClock) NewTimer(d time.Duration) clock.Timer {
	fired := make(chan time.Time, 1)
	t := &timer{clock: c, fired: fired, fire: func() { fired <- c.read() }}
	t.waiter = c.add(c.now.Add(d), t.fire)
	return t
}

type timer struct {
	clock  *virtualClock
	waiter *waiter
	fire   func()
	fired  chan time.Time
}

// C lets the running task wait until the timer fires, as the ticker's C does.
func (t *timer) C() <-chan time.Time {
	t.clock.tasks.yield(func() bool { return len(t.fired) > 0 })
	return t.fired
}

func (t *timer) Stop() bool { return t.clock.remove(t.waiter) }

func (t *timer) Reset(d time.Duration) bool {
	stopped := t.Stop()
	t.waiter = t.clock.add(t.clock.now.Add(d), t.fire)
	return stopped
}
