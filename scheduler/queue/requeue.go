package queue

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/klog/v2"
)

// detach takes p out of its place for requeue. Until enqueue gives it a new one,
// events are recorded for it. The caller holds q.mu.
func (q *Queue) detach(p *Pod) {
	q.remove(p)
	q.inFlight.begin(p)
}

// remove takes p out of the heap or the index that holds it. The caller holds
// q.mu.
func (q *Queue) remove(p *Pod) {
	if p.heap != nil {
		p.heap.remove(p)
	}
	if p.group != nil {
		index := q.unschedulable[p.profile]
		index.remove(p)
		if len(index) == 0 {
			delete(q.unschedulable, p.profile)
		}
	}
}

// isPlaced reports whether p is in a place: it is neither in flight nor being
// requeued.
func (p *Pod) isPlaced() bool { return p.place != InFlight && p.marker == nil }

// requeueAll requeues detached pods. Until all are in their places nothing is
// popped, since the last of them may be the first in order. strategyOf returns how
// a pod is to be requeued as far as the caller knows: queueSkip where only an
// event can wake it. cause is the event label for the metrics.
func (q *Queue) requeueAll(ctx context.Context, cause string, strategyOf func(*Pod) queueingStrategy, pods ...*Pod) {
	// A single pod is not waited for: it would let a slow plugin of one profile
	// delay the pods of others.
	together := len(pods) > 1
	if together {
		q.mu.Lock()
		q.pendingBatches++
		q.mu.Unlock()
	}
	for _, p := range pods {
		q.requeue(ctx, p, strategyOf(p), cause)
	}
	if together {
		q.mu.Lock()
		q.pendingBatches--
		q.mu.Unlock()
	}
	// Pop may have found nothing because of pendingBatches.
	q.signal()
}

// constantStrategy returns the same strategy for every pod.
func constantStrategy(strategy queueingStrategy) func(*Pod) queueingStrategy {
	return func(*Pod) queueingStrategy { return strategy }
}

// requeue decides where the detached pod p goes and puts it there. Plugins are
// called without q.mu. Events, updates and swaps that come meanwhile are taken into
// account before the pod gets its place.
func (q *Queue) requeue(ctx context.Context, p *Pod, strategy queueingStrategy, cause string) {
	gate, hold, gatesChecked := "", Hold{}, false
	for {
		q.mu.Lock()
		if p.gone {
			q.mu.Unlock()
			return
		}
		rules, pod, lastGate := q.rules[p.profile], p.pod, p.gate
		events := q.inFlight.takeEvents(p)
		if q.holdUnservedOrQuarantined(p, rules) {
			q.mu.Unlock()
			return
		}
		if missed := q.missedStrategy(p, rules); missed > queueSkip || p.rules != rules {
			// What the plugins of the old rules said does not count any more.
			p.rules, strategy, gatesChecked = rules, max(strategy, missed), false
		}
		if gatesChecked && strategy > queueRecheck {
			events = slices.DeleteFunc(events, func(e event) bool { return !rules.mayChangeDecision(p, strategy, gate, e) })
		}
		if len(events) == 0 && (strategy == queueSkip || gatesChecked) {
			wasHeld, oldPlace, oldGate := p.held.Reason != "", p.place, p.gate
			q.enqueue(p, requeueDecision{strategy, gate, hold, rules, cause, gatesChecked})
			if p.place == Gated && (wasHeld || oldPlace != Gated || oldGate != p.gate) {
				q.markHoldChange(p, wasHeld) // the condition still shows a hold that is over
			}
			q.mu.Unlock()
			return
		}
		q.mu.Unlock()

		for _, e := range events {
			strategy = max(strategy, rules.evaluateHints(klog.FromContext(ctx), p, pod, e))
		}
		if strategy == queueSkip && !rules.mayUngate(lastGate, events) {
			continue
		}
		hold, gatesChecked = rules.Hold(pod), true
		if hold.Reason == "" {
			gate = rules.PreEnqueue(ctx, pod, lastGate)
		}
		if lastGate != "" && hold.Reason == "" && gate == "" {
			// The event that woke the pod when the plugin gated it does not come again.
			strategy = max(strategy, queueAfterBackoff)
		}
	}
}

// holdUnservedOrQuarantined holds p without calling plugins if its profile is not
// served or p is quarantined. It reports whether it did. The caller holds q.mu.
func (q *Queue) holdUnservedOrQuarantined(p *Pod, rules *Rules) (isHeld bool) {
	if rules == nil {
		q.holdPod(p, q.profileHolds[p.profile])
		return true
	}
	if hold := q.quarantineHold(p, rules); hold.Reason != "" {
		q.holdPod(p, hold)
		q.quarantined.add(p)
		return true
	}
	return false
}

// missedStrategy returns how to requeue p because of a swap, or of a change of the
// holds, that came while p had no place. The caller holds q.mu.
func (q *Queue) missedStrategy(p *Pod, rules *Rules) (strategy queueingStrategy) {
	if p.rules != rules {
		strategy = rules.diff(p.rules).strategyFor(p)
	}
	if p.recheck {
		p.recheck, strategy = false, max(strategy, p.recheckStrategy())
	}
	return strategy
}

// requeueDecision is what requeue found out about a pod.
type requeueDecision struct {
	strategy queueingStrategy
	gate     string
	hold     Hold
	rules    *Rules
	cause    string
	// gatesChecked says that the PreEnqueue plugins were called.
	gatesChecked bool
}

// enqueue puts p into its new place. The caller holds q.mu.
func (q *Queue) enqueue(p *Pod, d requeueDecision) {
	q.inFlight.end(p)
	switch {
	case d.strategy > queueSkip && d.hold.Reason != "":
		q.holdPod(p, d.hold)
		return
	case d.strategy <= queueRecheck:
		if d.gatesChecked && d.hold.Reason == "" {
			p.gate = d.gate
		}
		if p.gate != "" {
			p.addRejector(p.gate)
		}
		q.addUnschedulable(p, d.cause, p.place != Unschedulable && p.place != Gated)
		return
	}
	p.held, p.gate, p.admittedBy = Hold{}, d.gate, d.rules.Hash
	if d.gate != "" {
		p.flushed = false
		p.addRejector(d.gate)
		q.addUnschedulable(p, d.cause, true)
		return
	}
	now, sub := q.clock.Now(), q.subQueueOf(d.rules.Sort)
	p.backoffUntil = d.rules.backoffExpiration(p)
	if d.strategy == queueAfterBackoff && isBackingOff(p, now) {
		p.place = Backoff
		sub.backoffHeap(p).add(p)
		incomingPods.WithLabelValues("backoff", d.cause).Inc()
	} else {
		p.place = Active
		if p.initialAttempt == nil {
			p.initialAttempt = &now
		}
		sub.active.add(p)
		incomingPods.WithLabelValues("active", d.cause).Inc()
	}
}

// addUnschedulable puts p where only an event or the flush finds it: it becomes
// gated if a plugin gates it, else unschedulable. count says whether the metrics
// count it as incoming. The caller holds q.mu.
func (q *Queue) addUnschedulable(p *Pod, cause string, count bool) {
	p.place = Unschedulable
	if p.gate != "" {
		p.place = Gated
	}
	if q.unschedulable[p.profile] == nil {
		q.unschedulable[p.profile] = unschedulableIndex{}
	}
	q.unschedulable[p.profile].add(p)
	if count {
		incomingPods.WithLabelValues("unschedulable", cause).Inc()
	}
}

// holdPod holds p for the given reason. The caller holds q.mu.
func (q *Queue) holdPod(p *Pod, hold Hold) {
	q.remove(p)
	q.inFlight.end(p)
	if q.rules[p.profile] == nil {
		// No event is evaluated for the pod from here on: a profile that comes later
		// has to evaluate it anew.
		p.rules = nil
	}
	isNew := p.place != Held || p.held != hold
	p.place, p.held = Held, hold
	if isNew && hold.Reason != "" {
		q.markHoldChange(p, true)
	}
}

// sortByTimestamp sorts pods by timestamp and UID, so that the same history wakes
// them in the same order: map iteration has none.
func sortByTimestamp(pods []*Pod) {
	slices.SortFunc(pods, func(a, b *Pod) int {
		return cmp.Or(a.timestamp.Compare(b.timestamp), cmp.Compare(a.pod.UID, b.pod.UID))
	})
}
