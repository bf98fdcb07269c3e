package simulation

import (
	"testing"
	"time"
)

// The wall clock of a replica jumps, and its monotonic clock does not: the difference of two times
// is that of the monotonic clock, as with times of time.Now.
func TestAnInstantHasTwoClocks(t *testing.T) {
	earlier := instant(startTime.Add(time.Hour), time.Second)
	later := instant(startTime, 3*time.Second)
	for what, c := range map[string]struct{ got, want time.Duration }{
		"the difference is that of the monotonic clock":        {later.Sub(earlier), 2 * time.Second},
		"without monotonic readings it is that of the wall":    {later.Round(0).Sub(earlier.Round(0)), -time.Hour},
		"a time later has both":                                {later.Add(time.Minute).Sub(earlier), time.Minute + 2*time.Second},
		"the wall clock is what is shown":                      {earlier.Round(0).Sub(startTime), time.Hour},
		"fractions of a second are kept":                       {instant(startTime.Add(time.Millisecond), 0).Round(0).Sub(startTime), time.Millisecond},
		"it is compared with a time without a monotonic clock": {earlier.Sub(startTime), time.Hour},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", what, c.got, c.want)
		}
	}
}
