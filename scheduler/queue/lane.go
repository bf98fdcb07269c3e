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
type subQueue struct {
	sort string
	// less is the order as one of the profiles that run now computes it, or one
	// of those that are leaving.
	less   func(a, b *Pod) bool
	active *podHeap
	// leaving are the rules of profiles that have another sort now, or none, and
	// whose pods are still on their way out.
	leaving []*Rules
	// slow are active pods, too, by profile; see takeActive.
	throttled    map[string]*podHeap
	backoff      *podHeap
	errorBackoff *podHeap
}

func newSubQueue(sort string) *subQueue {
	l := &subQueue{sort: sort}
	l.active = newHeap(func(a, b *Pod) bool { return l.less(a, b) })
	l.backoff = newHeap(func(a, b *Pod) bool {
		if !a.backoffUntil.Equal(b.backoffUntil) {
			return a.backoffUntil.Before(b.backoffUntil)
		}
		return l.less(a, b)
	})
	l.errorBackoff = newHeap(func(a, b *Pod) bool { return a.backoffUntil.Before(b.backoffUntil) })
	return l
}

// lane returns the lane of a sort that a profile has, which relane has made.
func (q *Queue) subQueueOf(sort string) *subQueue {
	for _, l := range q.subQueues {
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
func (q *Queue) syncSubQueues() {
	sorts := map[string]*Rules{}
	for _, name := range slices.Sorted(maps.Keys(q.rules)) {
		if rules := q.rules[name]; sorts[rules.Sort] == nil {
			sorts[rules.Sort] = rules
		}
	}
	q.subQueues = slices.DeleteFunc(q.subQueues, func(l *subQueue) bool { return sorts[l.sort] == nil && l.empty() && !fault.HeapNotRebuilt })
	for _, l := range q.subQueues {
		if sorts[l.sort] == nil && len(l.leaving) > 0 && !fault.LeaverAsked {
			l.useRules(l.leaving[0])
		}
	}
	for _, sort := range slices.Sorted(maps.Keys(sorts)) {
		l := q.subQueueOf(sort)
		if l == nil {
			l = newSubQueue(sort)
			q.subQueues = append(q.subQueues, l)
		}
		if l.less == nil || !fault.LessOfClosedGeneration {
			l.useRules(sorts[sort])
		}
	}
	q.lastPopped = 0
}

func (l *subQueue) useRules(rules *Rules) {
	less := rules.Less
	l.less = func(a, b *Pod) bool { return less(a, b) }
}

func (l *subQueue) empty() bool {
	n := l.active.Len() + l.backoff.Len() + l.errorBackoff.Len()
	for _, h := range l.throttled {
		n += h.Len()
	}
	return n == 0
}

// leaves notes that a profile had rules, and that its pods are about to be gone
// through; the caller calls left when they have been. Called with the lock.
func (q *Queue) addLeaving(rules *Rules) {
	if rules != nil {
		if l := q.subQueueOf(rules.Sort); l != nil {
			l.leaving = append(l.leaving, rules)
		}
	}
}

// left says that none of the pods that leaves was about is where it was.
func (q *Queue) removeLeaving(rules *Rules) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.subQueues {
		l.leaving = slices.DeleteFunc(l.leaving, func(r *Rules) bool { return r == rules })
	}
	q.syncSubQueues() // a lane that is empty now is dropped
}

// backoffHeap is the heap that p waits in while it backs off.
func (l *subQueue) backoffHeap(p *Pod) *podHeap {
	if len(p.rejectors) == 0 && len(p.pending) == 0 {
		return l.errorBackoff
	}
	return l.backoff
}

// backoff returns when p may be tried again. The wait starts at
// InitialBackoff, doubles with each refusal (or, while errors last, with each
// error) and stops growing at MaxBackoff.
func (r *Rules) backoffExpiration(p *Pod) time.Time {
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
func isBackingOff(p *Pod, now time.Time) bool {
	return !p.backoffUntil.Before(now.Truncate(backoffWindow))
}
