package queue

import (
	"slices"
	"time"

	fwk "k8s.io/kube-scheduler/framework"
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
	// less is lent by one of the lane's profiles, as it runs now: that of a
	// generation that was closed must not be asked any more.
	less     fwk.LessFunc
	active   *podHeap
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

// lend gives the lane of the rules' sort their Less; it makes the lane if
// there is none. Called with the lock.
func (q *Queue) lend(rules *Rules) {
	for _, l := range q.lanes {
		if l.sort == rules.Sort {
			l.less = rules.Less
			return
		}
	}
	l := newLane(rules.Sort)
	l.less = rules.Less
	q.lanes = append(q.lanes, l)
}

// takeBack ends what a profile lent that has left its lane: another profile
// that sorts alike lends its Less, and a lane without profiles goes. Its heaps
// are empty then. Called with the lock.
func (q *Queue) takeBack(old *Rules) {
	for _, other := range q.rules {
		if other.Sort == old.Sort {
			q.lend(other)
			return
		}
	}
	q.lanes = slices.DeleteFunc(q.lanes, func(l *lane) bool { return l.sort == old.Sort })
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
