package main

import "time"

// ownTime is when a side had its turn, in the order of time.
type ownTime []span

type span struct{ from, to time.Time }

// until is how much of it there was until then.
func (o ownTime) until(then time.Time) (sum time.Duration) {
	for _, s := range o {
		if s.to.After(then) {
			s.to = then
		}
		sum += max(0, s.to.Sub(s.from))
	}
	return sum
}
