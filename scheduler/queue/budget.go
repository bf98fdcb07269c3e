package queue

import (
	"maps"
	"slices"
	"time"

	"github.com/berthdev/berth/scheduler/fault"
)

// A profile's attempts may take attemptBudget each of the loop's time. What
// they take beyond is its debt, and with more than mostDebt its pods stand back
// for those of others until it has shrunk again: by slowShare of the time that
// goes by. So a slow profile has that share of the loop while others wait, and
// all of it while nobody does.
const (
	attemptBudget  = 5 * time.Millisecond
	throttleAbove  = 500 * time.Millisecond
	throttledShare = 0.1
	// longestDebt bounds for how long a profile stands back after one attempt.
	maxDeficit = 10 * time.Second
)

// debt is what a profile owes to others.
type deficit struct {
	amount time.Duration
	at     time.Time // when that was so
}

// Spent tells that an attempt of the profile called name took the loop so long.
func (q *Queue) RecordLoopTime(name string, took time.Duration) {
	loopSeconds.WithLabelValues(name).Add(took.Seconds())
	if took <= attemptBudget {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.rules[name] == nil && !fault.AccountsOutliveProfile {
		return // it was deleted during the attempt
	}
	now := q.clock.Now()
	owed := q.deficitOf(name, now) + took - attemptBudget
	q.deficits[name] = deficit{min(owed, maxDeficit), now}
}

// forgive forgets what a profile owes that is another one by rules: it may be
// fast. Called with the lock.
func (q *Queue) clearDeficit(name string, rules *Rules) {
	if before := q.rules[name]; before == nil || before.Hash != rules.Hash {
		delete(q.deficits, name)
	}
}

// debt is what a profile owes at now. Called with the lock.
func (q *Queue) deficitOf(name string, now time.Time) time.Duration {
	d, owes := q.deficits[name]
	if !owes {
		return 0
	}
	paid := time.Duration(float64(now.Sub(d.at)) * throttledShare)
	if paid >= d.amount {
		delete(q.deficits, name)
		return 0
	}
	return d.amount - paid
}

// standsBack says whether the pods of a profile let others go first. Called with
// the lock.
func (q *Queue) throttled(name string, now time.Time) bool {
	return len(q.deficits) > 0 && q.deficitOf(name, now) > throttleAbove && !fault.SlowPreferred
}

// takeActive takes the first active pod of a lane whose profile does not stand
// back; those before it are laid beside the heap. nil when there is none. Called
// with the lock.
func (q *Queue) popActive(l *subQueue) *Pod {
	if len(q.deficits) == 0 && len(l.throttled) == 0 {
		return l.active.popFirst()
	}
	now := q.clock.Now()
	for p := l.active.peek(); p != nil && q.throttled(p.profile, now); p = l.active.peek() {
		p.heap.remove(p)
		l.throttledHeap(p.profile).add(p)
	}
	first := l.active
	for _, name := range slices.Sorted(maps.Keys(l.throttled)) {
		switch h := l.throttled[name]; {
		case h.Len() == 0:
			delete(l.throttled, name)
		case q.throttled(name, now):
		case first.Len() == 0 || l.less(h.peek(), first.peek()):
			first = h
		}
	}
	return first.popFirst()
}

// takeSlow takes a pod of a profile that stands back: nobody else wants his
// turn. Called with the lock.
func (q *Queue) popThrottled(l *subQueue) *Pod {
	var first *podHeap
	for _, name := range slices.Sorted(maps.Keys(l.throttled)) {
		if h := l.throttled[name]; h.Len() > 0 && (first == nil || l.less(h.peek(), first.peek())) {
			first = h
		}
	}
	if first == nil {
		return nil
	}
	return first.popFirst()
}

// slowHeap holds the active pods of a profile that stood back when it was their
// turn.
func (l *subQueue) throttledHeap(profile string) *podHeap {
	if l.throttled == nil {
		l.throttled = map[string]*podHeap{}
	}
	if l.throttled[profile] == nil {
		l.throttled[profile] = newHeap(func(a, b *Pod) bool { return l.less(a, b) })
	}
	return l.throttled[profile]
}
