package queue

import (
	"context"
	"time"
)

// Tick does what time alone causes at now: backoffs end, and pods that were
// dormant for longer than their profile's flushAfter are tried again, and so are
// pods that were set aside for a time.
func (q *Queue) Tick(ctx context.Context) {
	now := q.clock.Now()
	q.mu.Lock()
	woken, flushed, back := q.backoffEnds(now), q.flush(now), q.asidesEnd(now)
	q.mu.Unlock()
	q.place(ctx, "BackoffComplete", always(immediately), woken...)
	q.place(ctx, "UnschedulableTimeout", always(afterBackoff), flushed...)
	q.placeBack(ctx, back)
}

// backoffEnds lifts the pods whose backoff is over. Called with the lock.
func (q *Queue) backoffEnds(now time.Time) (woken []*Pod) {
	for _, l := range q.lanes {
		for _, h := range []*podHeap{l.refusals, l.errors} {
			for p := h.peek(); p != nil && !backingOff(p, now); p = h.peek() {
				q.lift(p)
				woken = append(woken, p)
			}
		}
	}
	return woken
}

// flush lifts the pods that no event woke for too long. One that stays dormant
// all the same, behind its gate, is flushed again a period later. Called with
// the lock.
func (q *Queue) flush(now time.Time) (flushed []*Pod) {
	for profile, asleep := range q.dormant {
		rules := q.rules[profile]
		if rules == nil || rules.FlushAfter <= 0 {
			continue
		}
		period := rules.FlushAfter
		for _, d := range asleep {
			for p := range d.pods {
				since := p.timestamp
				if p.flushedAt.After(since) {
					since = p.flushedAt
				}
				if now.Sub(since) > period {
					flushed = append(flushed, p)
				}
			}
		}
	}
	sortPods(flushed)
	for _, p := range flushed {
		p.flushed, p.flushedAt = true, now
		q.lift(p)
	}
	return flushed
}

// Run ticks until ctx ends, at the borders of the backoff windows, so that
// those whose window has passed are tried together and at once.
func (q *Queue) Run(ctx context.Context) {
	now := q.clock.Now()
	border := q.clock.NewTimer(now.Add(backoffWindow).Truncate(backoffWindow).Sub(now))
	select {
	case <-ctx.Done():
		border.Stop()
		return
	case <-border.C():
	}
	ticker := q.clock.NewTicker(backoffWindow)
	defer ticker.Stop()
	for {
		q.Tick(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}
