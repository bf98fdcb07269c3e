package queue

import (
	"context"
	"time"
)

// Tick requeues the pods that need no event any more: those whose backoff or
// quarantine is over, and those that were unschedulable for longer than their
// profile's FlushAfter.
func (q *Queue) Tick(ctx context.Context) {
	now := q.clock.Now()
	q.mu.Lock()
	woken, flushed, released := q.completedBackoffs(now), q.flushUnschedulable(now), q.endedQuarantines(now)
	q.mu.Unlock()
	q.requeueAll(ctx, "BackoffComplete", constantStrategy(queueImmediately), woken...)
	q.requeueAll(ctx, "UnschedulableTimeout", constantStrategy(queueAfterBackoff), flushed...)
	q.requeueReleased(ctx, released)
}

// completedBackoffs detaches and returns the pods whose backoff is over. The
// caller holds q.mu.
func (q *Queue) completedBackoffs(now time.Time) (woken []*Entity) {
	for _, l := range q.subQueues {
		for _, h := range []*podHeap{l.backoff, l.errorBackoff} {
			for p := h.peek(); p != nil && !q.isBackingOff(p, now); p = h.peek() {
				q.detach(p)
				woken = append(woken, p)
			}
		}
	}
	return woken
}

// flushUnschedulable detaches and returns the pods that were unschedulable or
// gated for longer than FlushAfter without an event. One that stays gated all the
// same is flushed again after another FlushAfter. The caller holds q.mu.
func (q *Queue) flushUnschedulable(now time.Time) (flushed []*Entity) {
	for profile, index := range q.unschedulable {
		rules := q.rules[profile]
		if rules == nil || rules.FlushAfter <= 0 {
			continue
		}
		period := rules.FlushAfter
		for _, d := range index {
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

// Run calls Tick until ctx ends, at the ends of the backoff windows, so that pods
// whose backoff ends in the same window are requeued together and without delay.
func (q *Queue) Run(ctx context.Context) {
	now := q.clock.Now()
	windowEnd := q.clock.NewTimer(q.windows.startOf(now).Add(backoffWindow).Sub(now))
	select {
	case <-ctx.Done():
		windowEnd.Stop()
		return
	case <-windowEnd.C():
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
