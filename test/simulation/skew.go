package simulation

import (
	"time"
	"unsafe"
)

// skew is how the clock of one machine differs from the time of the history.
type skew struct {
	// two says that the clock shows a wall clock and a monotonic clock that differ: without it,
	// its times have no monotonic reading, as all times of a history.
	two bool
	// wall is how far the wall clock is ahead. lag is how long the machine was suspended, in
	// which its monotonic clock stood still.
	wall, lag time.Duration
}

// read returns what time.Now would on that machine.
func (c *virtualClock) read() time.Time {
	if !c.two {
		return c.now
	}
	return instant(c.now.Add(c.wall), c.monotonic())
}

// monotonic is the machine's monotonic clock.
func (c *virtualClock) monotonic() time.Duration { return c.now.Sub(startTime) - c.lag }

// resume lets timers run on after a machine was suspended for that time.
func (c *virtualClock) resume(after time.Duration) {
	c.lag += after
	for _, a := range c.waiters {
		a.at = a.at.Add(after)
	}
}

// instant returns a time with a monotonic reading, which only time.Now can make otherwise: its
// layout is that of package time.
func instant(wall time.Time, monotonic time.Duration) time.Time {
	const hasMonotonic = 1 << 63
	year1885 := time.Date(1885, time.January, 1, 0, 0, 0, 0, time.UTC)
	seconds := uint64(wall.Unix() - year1885.Unix())
	layout := struct {
		wall uint64
		ext  int64
		loc  *time.Location
	}{wall: hasMonotonic | seconds<<30 | uint64(wall.Nanosecond()), ext: int64(time.Hour + monotonic)}
	return *(*time.Time)(unsafe.Pointer(&layout))
}
