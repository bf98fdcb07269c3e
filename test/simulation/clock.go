package simulation

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/utils/clock"
)

// dawn is when every history begins.
var dawn = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// virtual is a clock that stands still until advance is called. A task that
// asks for a channel of time waits where it asks, and finds the channel filled:
// so that the rooms' own selects need no door.
type virtual struct {
	tasks  *executor
	now    time.Time
	alarms []*alarm // in the order in which they go off
}

// alarm is one thing that happens at its time.
type alarm struct {
	at    time.Time
	sound func() // nil: somebody looks at the time
	// ticks says that it goes off again and again, whatever else happens.
	ticks bool
}

var _ clock.WithTickerAndDelayedExecution = &virtual{}

func (c *virtual) Now() time.Time                  { c.tasks.look(); return c.now }
func (c *virtual) Since(t time.Time) time.Duration { return c.now.Sub(t) }

// set adds an alarm behind those of the same time.
func (c *virtual) set(at time.Time, sound func()) *alarm {
	a := &alarm{at: at, sound: sound}
	i, _ := slices.BinarySearchFunc(c.alarms, at, func(other *alarm, at time.Time) int {
		return cmp.Or(other.at.Compare(at), -1)
	})
	c.alarms = slices.Insert(c.alarms, i, a)
	return a
}

func (c *virtual) drop(a *alarm) bool {
	before := len(c.alarms)
	c.alarms = slices.DeleteFunc(c.alarms, func(other *alarm) bool { return other == a })
	return len(c.alarms) < before
}

// advance moves time to the next alarm and sounds all that are due. It reports
// false when there is none.
func (c *virtual) advance() bool {
	if len(c.alarms) == 0 {
		return false
	}
	if at := c.alarms[0].at; at.After(c.now) {
		c.now = at
	}
	for len(c.alarms) > 0 && !c.alarms[0].at.After(c.now) {
		a := c.alarms[0]
		c.alarms = c.alarms[1:]
		if a.sound != nil {
			a.sound()
		}
	}
	return true
}

// quiet says that nothing but tickers will go off.
func (c *virtual) quiet() bool {
	return !slices.ContainsFunc(c.alarms, func(a *alarm) bool { return !a.ticks })
}

// until parks the running task until the given time.
func (c *virtual) until(at time.Time, ticks bool) <-chan time.Time {
	c.set(at, nil).ticks = ticks
	c.tasks.park(func() bool { return !c.now.Before(at) })
	reached := make(chan time.Time, 1)
	reached <- c.now
	return reached
}

func (c *virtual) After(d time.Duration) <-chan time.Time { return c.until(c.now.Add(d), false) }
func (c *virtual) Sleep(d time.Duration)                  { c.until(c.now.Add(d), false) }

// Tick and NewTicker make tickers that never lag behind.
func (c *virtual) Tick(d time.Duration) <-chan time.Time { return c.NewTicker(d).C() }

func (c *virtual) NewTicker(d time.Duration) clock.Ticker {
	return &ticker{clock: c, period: d, next: c.now.Add(d)}
}

type ticker struct {
	clock  *virtual
	period time.Duration
	next   time.Time
}

func (t *ticker) C() <-chan time.Time {
	reached := t.clock.until(t.next, true)
	t.next = t.next.Add(t.period)
	return reached
}

func (t *ticker) Stop() {}

// AfterFunc runs f as a task of its own.
func (c *virtual) AfterFunc(d time.Duration, f func()) clock.Timer {
	t := &timer{clock: c, sound: func() { c.tasks.start("timer", f) }}
	t.alarm = c.set(c.now.Add(d), t.sound)
	return t
}

func (c *virtual) NewTimer(d time.Duration) clock.Timer {
	rang := make(chan time.Time, 1)
	t := &timer{clock: c, rang: rang, sound: func() { rang <- c.now }}
	t.alarm = c.set(c.now.Add(d), t.sound)
	return t
}

type timer struct {
	clock *virtual
	alarm *alarm
	sound func()
	rang  chan time.Time
}

// C parks the running task until the timer rings, as the ticker's does.
func (t *timer) C() <-chan time.Time {
	t.clock.tasks.park(func() bool { return len(t.rang) > 0 })
	return t.rang
}

func (t *timer) Stop() bool { return t.clock.drop(t.alarm) }

func (t *timer) Reset(d time.Duration) bool {
	stopped := t.Stop()
	t.alarm = t.clock.set(t.clock.now.Add(d), t.sound)
	return stopped
}
