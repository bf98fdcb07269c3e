package queue

import (
	"maps"
	"slices"
	"time"

	"github.com/berthdev/berth/scheduler/fault"
)

// backoffWindow is the grain of backoff: expirations are rounded down to it,
// so that within one window priority decides, not the order of failures.
const backoffWindow = time.Second

// lane holds the pods of all profiles that sort alike: one heap of those ready
// to be tried, one of those that wait after a refusal, one of those that wait
// after an error. Errors have a heap of their own because an idle queue pops
// from refusals early, but never hurries a failing API server.
type lane struct {
	sort string
	// less is the order as one of the profiles that run now computes it, or one
	// of those that are leaving.
	less   func(a, b *Pod) bool
	active *podHeap
	// leaving are the rules of profiles that have another sort now, or none, and
	// whose pods are still on their way out.
	leaving []*Rules
	// slow are active pods, too, by profile; see takeActive.
	slow     map[string]*podHeap
	refusals *podHeap
	errors   *podHeap
}

func newLane(sort string) *lane {
	l := &lane{sort: sort}
	l.active = newHeap(func(a, b *Pod) bool { return l.less(a, b) })
	l.refusals = newHeap(func(a, b *Pod) bool {
		if !a.backoffUntil.Equal(b.backoffUntil) {
			return a.backoffUntil.Before(b.backoffUntil)
		}
		return l.less(a, b)
	})
	l.errors = newHeap(func(a, b *Pod) bool { return a.backoffUntil.Before(b.backoffUntil) })
	return l
}

// lane returns the lane of a sort that a profile has, which relane has made.
func (q *Queue) lane(sort string) *lane {
	for _, l := range q.lanes {
		if l.sort == sort || fault.HeapNotRebuilt {
			return l
		}
	}
	return nil
}

// relane makes the lanes those of the profiles that are served now. A lane
// whose profiles are gone is dropped once their pods have left it. One that
// stays asks a profile that runs or, until its pods have left, one that did: the
// plugins of one that ended are closed. Called with the lock.
func (q *Queue) relane() {
	sorts := map[string]*Rules{}
	for _, name := range slices.Sorted(maps.Keys(q.rules)) {
		if rules := q.rules[name]; sorts[rules.Sort] == nil {
			sorts[rules.Sort] = rules
		}
	}
	q.lanes = slices.DeleteFunc(q.lanes, func(l *lane) bool { return sorts[l.sort] == nil && l.empty() && !fault.HeapNotRebuilt })
	for _, l := range q.lanes {
		if sorts[l.sort] == nil && len(l.leaving) > 0 && !fault.LeaverAsked {
			l.asks(l.leaving[0])
		}
	}
	for _, sort := range slices.Sorted(maps.Keys(sorts)) {
		l := q.lane(sort)
		if l == nil {
			l = newLane(sort)
			q.lanes = append(q.lanes, l)
		}
		if l.less == nil || !fault.LessOfClosedGeneration {
			l.asks(sorts[sort])
		}
	}
	q.popped = 0
}

func (l *lane) asks(rules *Rules) {
	less := rules.Less
	l.less = func(a, b *Pod) bool { return less(a, b) }
}

func (l *lane) empty() bool {
	n := l.active.Len() + l.refusals.Len() + l.errors.Len()
	for _, h := range l.slow {
		n += h.Len()
	}
	return n == 0
}

// leaves notes that a profile had rules, and that its pods are about to be gone
// through; the caller calls left when they have been. Called with the lock.
func (q *Queue) leaves(rules *Rules) {
	if rules != nil {
		if l := q.lane(rules.Sort); l != nil {
			l.leaving = append(l.leaving, rules)
		}
	}
}

// left says that none of the pods that leaves was about is where it was.
func (q *Queue) left(rules *Rules) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.lanes {
		l.leaving = slices.DeleteFunc(l.leaving, func(r *Rules) bool { return r == rules })
	}
	q.relane() // a lane that is empty now is dropped
}

// backoffHeap is the heap that p waits in while it backs off.
func (l *lane) backoffHeap(p *Pod) *podHeap {
	if len(p.rejectors) == 0 && len(p.pending) == 0 {
		return l.errors
	}
	return l.refusals
}

// backoff returns when p may be tried again. The wait starts at
// InitialBackoff, doubles with each refusal (or, while errors last, with each
// error) and stops growing at MaxBackoff.
func (r *Rules) backoff(p *Pod) time.Time {
	count := p.unschedulableCount
	if p.consecutiveErrors > 0 {
		count = p.consecutiveErrors
	}
	if count == 0 || r.MaxBackoff == 0 {
		return time.Time{}
	}
	wait := r.MaxBackoff
	if shift := count - 1; shift < 63 && r.InitialBackoff <= r.MaxBackoff>>shift {
		wait = r.InitialBackoff << shift
	}
	return p.timestamp.Add(wait).Truncate(backoffWindow)
}

// backingOff says whether p has to wait longer at now.
func backingOff(p *Pod, now time.Time) bool {
	return !p.backoffUntil.Before(now.Truncate(backoffWindow))
}
