package queue

import (
	"maps"
	"slices"
	"time"
)

// Profiles that use too much of the loop's time are throttled. Time that an
// attempt takes beyond attemptBudget adds to its profile's deficit, which shrinks
// by throttledShare of the time that passes. While the deficit is above
// throttleAbove, pods of other profiles are popped first. A slow profile thus gets
// throttledShare of the loop while others have pods to try, and all of it while
// they have none.
const (
	attemptBudget  = 5 * time.Millisecond
	throttleAbove  = 500 * time.Millisecond
	throttledShare = 0.1
	// maxDeficit bounds how long one attempt can throttle a profile.
	maxDeficit = 10 * time.Second
)

// deficit is the loop time that a profile has used beyond its budget.
type deficit struct {
	amount time.Duration
	at     time.Time // when amount was computed
}

// RecordLoopTime adds the loop time that one attempt of the named profile took, for that many
// pods: a group has the budget of each of its pods.
func (q *Queue) RecordLoopTime(name string, took time.Duration, pods int) {
	loopSeconds.WithLabelValues(name).Add(took.Seconds())
	budget := attemptBudget * time.Duration(max(pods, 1))
	if took <= budget {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.rules[name] == nil {
		return // the profile was deleted during the attempt
	}
	now := q.clock.Now()
	amount := q.deficitOf(name, now) + took - budget
	q.deficits[name] = deficit{min(amount, maxDeficit), now}
}

// clearDeficit drops the deficit of a profile whose new rules have another Hash:
// the new one may be faster. The caller holds q.mu.
func (q *Queue) clearDeficit(name string, rules *Rules) {
	if old := q.rules[name]; old == nil || old.Hash != rules.Hash {
		delete(q.deficits, name)
	}
}

// deficitOf returns the deficit of a profile at now. The caller holds q.mu.
func (q *Queue) deficitOf(name string, now time.Time) time.Duration {
	d, ok := q.deficits[name]
	if !ok {
		return 0
	}
	reduced := time.Duration(float64(now.Sub(d.at)) * throttledShare)
	if reduced >= d.amount {
		delete(q.deficits, name)
		return 0
	}
	return d.amount - reduced
}

// throttled reports whether pods of other profiles are popped before those of
// the named one. The caller holds q.mu.
func (q *Queue) throttled(name string, now time.Time) bool {
	return len(q.deficits) > 0 && q.deficitOf(name, now) > throttleAbove
}

// popActive removes and returns the first active pod of l whose profile is not
// throttled, nil when there is none. The caller holds q.mu.
func (q *Queue) popActive(l *subQueue) *Entity { return q.activeHeap(l).popFirst() }

// popActivePod is popActive, and returns nil where a group is first. The caller holds q.mu.
func (q *Queue) popActivePod(l *subQueue) *Entity {
	h := q.activeHeap(l)
	if first := h.peek(); first == nil || first.podGroup != nil {
		return nil
	}
	return h.popFirst()
}

// activeHeap returns the heap that has the first active pod of l whose profile is not
// throttled; it is empty where there is none. It moves the throttled pods that it meets to
// the heaps of their profiles. The caller holds q.mu.
func (q *Queue) activeHeap(l *subQueue) *podHeap {
	if len(q.deficits) == 0 && len(l.throttled) == 0 {
		return l.active
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
	return first
}

// popThrottled removes and returns the first active pod among those of throttled
// profiles, nil when there is none. It is called when popActive finds none. The
// caller holds q.mu.
func (q *Queue) popThrottled(l *subQueue) *Entity {
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

// throttledHeap returns the heap of the active pods of a profile that was
// throttled when they were first in order, and makes it if needed.
func (l *subQueue) throttledHeap(profile string) *podHeap {
	if l.throttled == nil {
		l.throttled = map[string]*podHeap{}
	}
	if l.throttled[profile] == nil {
		l.throttled[profile] = newHeap(func(a, b *Entity) bool { return l.less(a, b) })
	}
	return l.throttled[profile]
}
