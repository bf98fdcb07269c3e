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
	woken, flushed, back := q.completedBackoffs(now), q.flushUnschedulable(now), q.endedQuarantines(now)
	q.mu.Unlock()
	q.requeueAll(ctx, "BackoffComplete", constantStrategy(queueImmediately), woken...)
	q.requeueAll(ctx, "UnschedulableTimeout", constantStrategy(queueAfterBackoff), flushed...)
	q.requeueReleased(ctx, back)
}

// backoffEnds lifts the pods whose backoff is over. Called with the lock.
func (q *Queue) completedBackoffs(now time.Time) (woken []*Pod) {
	for _, l := range q.subQueues {
		for _, h := range []*podHeap{l.backoff, l.errorBackoff} {
			for p := h.peek(); p != nil && !isBackingOff(p, now); p = h.peek() {
				q.detach(p)
				woken = append(woken, p)
			}
		}
	}
	return woken
}

// flush lifts the pods that no event woke for too long. One that stays dormant
// all the same, behind its gate, is flushed again a period later. Called with
// the lock.
func (q *Queue) flushUnschedulable(now time.Time) (flushed []*Pod) {
	for profile, asleep := range q.unschedulable {
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
	sortByTimestamp(flushed)
	for _, p := range flushed {
		p.flushed, p.flushedAt = true, now
		q.detach(p)
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
