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
	attemptBudget = 5 * time.Millisecond
	mostDebt      = 500 * time.Millisecond
	slowShare     = 0.1
	// longestDebt bounds for how long a profile stands back after one attempt.
	longestDebt = 10 * time.Second
)

// debt is what a profile owes to others.
type debt struct {
	owed time.Duration
	at   time.Time // when that was so
}

// Spent tells that an attempt of the profile called name took the loop so long.
func (q *Queue) Spent(name string, took time.Duration) {
	loopTime.WithLabelValues(name).Add(took.Seconds())
	if took <= attemptBudget {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.rules[name] == nil && !fault.AccountsOutliveProfile {
		return // it was deleted during the attempt
	}
	now := q.clock.Now()
	owed := q.debt(name, now) + took - attemptBudget
	q.debts[name] = debt{min(owed, longestDebt), now}
}

// forgive forgets what a profile owes that is another one by rules: it may be
// fast. Called with the lock.
func (q *Queue) forgive(name string, rules *Rules) {
	if before := q.rules[name]; before == nil || before.Hash != rules.Hash {
		delete(q.debts, name)
	}
}

// debt is what a profile owes at now. Called with the lock.
func (q *Queue) debt(name string, now time.Time) time.Duration {
	d, owes := q.debts[name]
	if !owes {
		return 0
	}
	paid := time.Duration(float64(now.Sub(d.at)) * slowShare)
	if paid >= d.owed {
		delete(q.debts, name)
		return 0
	}
	return d.owed - paid
}

// standsBack says whether the pods of a profile let others go first. Called with
// the lock.
func (q *Queue) standsBack(name string, now time.Time) bool {
	return len(q.debts) > 0 && q.debt(name, now) > mostDebt && !fault.SlowPreferred
}

// takeActive takes the first active pod of a lane whose profile does not stand
// back; those before it are laid beside the heap. nil when there is none. Called
// with the lock.
func (q *Queue) takeActive(l *lane) *Pod {
	if len(q.debts) == 0 && len(l.slow) == 0 {
		return l.active.take()
	}
	now := q.clock.Now()
	for p := l.active.peek(); p != nil && q.standsBack(p.profile, now); p = l.active.peek() {
		p.heap.drop(p)
		l.slowHeap(p.profile).add(p)
	}
	first := l.active
	for _, name := range slices.Sorted(maps.Keys(l.slow)) {
		switch h := l.slow[name]; {
		case h.Len() == 0:
			delete(l.slow, name)
		case q.standsBack(name, now):
		case first.Len() == 0 || l.less(h.peek(), first.peek()):
			first = h
		}
	}
	return first.take()
}

// takeSlow takes a pod of a profile that stands back: nobody else wants his
// turn. Called with the lock.
func (q *Queue) takeSlow(l *lane) *Pod {
	var first *podHeap
	for _, name := range slices.Sorted(maps.Keys(l.slow)) {
		if h := l.slow[name]; h.Len() > 0 && (first == nil || l.less(h.peek(), first.peek())) {
			first = h
		}
	}
	if first == nil {
		return nil
	}
	return first.take()
}

// slowHeap holds the active pods of a profile that stood back when it was their
// turn.
func (l *lane) slowHeap(profile string) *podHeap {
	if l.slow == nil {
		l.slow = map[string]*podHeap{}
	}
	if l.slow[profile] == nil {
		l.slow[profile] = newHeap(func(a, b *Pod) bool { return l.less(a, b) })
	}
	return l.slow[profile]
}
