package queue

import (
	"time"
)

// backoffWindow is the grain of backoff: expirations are rounded down to it,
// so that within one window priority decides, not the order of failures.
const backoffWindow = time.Second

// lane holds the pods of all profiles that sort alike: one heap of those ready
// to be tried, one of those that wait after a refusal, one of those that wait
// after an error. Errors have a heap of their own because an idle queue pops
// from refusals early, but never hurries a failing API server.
type lane struct {
	sort     string
	active   *podHeap
	refusals *podHeap
	errors   *podHeap
}

func newLane(sort string, less func(a, b *Pod) bool) *lane {
	return &lane{
		sort:   sort,
		active: newHeap(less),
		refusals: newHeap(func(a, b *Pod) bool {
			if !a.backoffUntil.Equal(b.backoffUntil) {
				return a.backoffUntil.Before(b.backoffUntil)
			}
			return less(a, b)
		}),
		errors: newHeap(func(a, b *Pod) bool { return a.backoffUntil.Before(b.backoffUntil) }),
	}
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
