package queue

import (
	"cmp"
	"context"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/berthdev/berth/scheduler/framework"
)

// detach takes p out of its place for requeue. Until enqueue gives it a new one,
// events are recorded for it. The caller holds q.mu.
func (q *Queue) detach(p *Entity) {
	q.remove(p)
	q.inFlight.begin(p)
}

// remove takes p out of the heap or the index that holds it. The caller holds
// q.mu.
func (q *Queue) remove(p *Entity) {
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
func (p *Entity) isPlaced() bool {
	return p.place != InFlight && p.marker == nil && p.memberOf == nil
}

// detachedEntities are detached entities, each with the strategy to requeue it.
type detachedEntities struct {
	entities   []*Entity
	strategies []queueingStrategy
}

// add adds an entity; nil is ignored.
func (d *detachedEntities) add(p *Entity, strategy queueingStrategy) {
	if p != nil {
		d.entities, d.strategies = append(d.entities, p), append(d.strategies, strategy)
	}
}

// requeueDetached is requeueAll for entities with a strategy each.
func (q *Queue) requeueDetached(ctx context.Context, cause string, d detachedEntities) {
	if len(d.entities) == 1 {
		q.requeueAll(ctx, cause, constantStrategy(d.strategies[0]), d.entities[0])
		return
	}
	strategies := map[*Entity]queueingStrategy{}
	for i, p := range d.entities {
		strategies[p] = d.strategies[i]
	}
	q.requeueAll(ctx, cause, func(p *Entity) queueingStrategy { return strategies[p] }, d.entities...)
}

// maxBatchDelay is by how much plugins may exceed attemptBudget at the pods of a batch before
// nothing waits any more for the rest of them.
const maxBatchDelay = time.Second

// requeueAll requeues detached pods. Until all are in their places nothing is
// popped, since the last of them may be the first in order; but slow plugins of one
// profile delay the pods of others by maxBatchDelay and one call at most. strategyOf
// returns how a pod is to be requeued as far as the caller knows: queueSkip where only
// an event can wake it. cause is the event label for the metrics.
func (q *Queue) requeueAll(ctx context.Context, cause string, strategyOf func(*Entity) queueingStrategy, pods ...*Entity) {
	// A single pod is not waited for: it would let a slow plugin of one profile
	// delay the pods of others.
	together := len(pods) > 1
	if together {
		q.mu.Lock()
		q.pendingBatches++
		q.mu.Unlock()
	}
	var delay time.Duration
	for _, p := range pods {
		begin := q.clock.Now()
		q.requeue(ctx, p, strategyOf(p), cause)
		delay += max(0, q.clock.Since(begin)-attemptBudget)
		q.mu.letOthersLock()
		if together && delay > maxBatchDelay {
			q.endBatch()
			together = false
		}
		if !together {
			q.signal()
		}
	}
	if together {
		q.endBatch()
	}
	// Pop may have found nothing because of pendingBatches.
	q.signal()
}

// endBatch lets pods be popped before the rest of a batch is requeued.
func (q *Queue) endBatch() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pendingBatches--
}

// constantStrategy returns the same strategy for every pod.
func constantStrategy(strategy queueingStrategy) func(*Entity) queueingStrategy {
	return func(*Entity) queueingStrategy { return strategy }
}

// requeue decides where the detached pod or group p goes and puts it there. Plugins are
// called without q.mu. Events, updates and swaps that come meanwhile are taken into
// account before p gets its place.
func (q *Queue) requeue(ctx context.Context, p *Entity, strategy queueingStrategy, cause string) {
	d := requeueDecision{strategy: strategy, cause: cause}
	for {
		q.mu.Lock()
		if p.gone {
			q.mu.Unlock()
			return
		}
		d.rules = q.rules[p.profile]
		if instead, strategy, regrouped := q.regroup(p, d.rules); regrouped {
			q.mu.Unlock()
			q.requeueAll(ctx, cause, constantStrategy(strategy), instead...)
			return
		}
		pods, lastGate := p.podsToCheck(), p.gate
		events := q.inFlight.takeEvents(p)
		if q.holdUnservedOrQuarantined(p, d.rules) {
			q.mu.Unlock()
			return
		}
		if missed := q.missedStrategy(p, d.rules); missed > queueSkip || p.rules != d.rules {
			// What the plugins of the old rules said does not count any more.
			p.rules, d.strategy = d.rules, max(d.strategy, missed)
			d.forgetGates()
		}
		if p.takeChanged() {
			d.forgetGates()
		}
		if d.gatesChecked && d.strategy > queueRecheck {
			events = slices.DeleteFunc(events, func(e event) bool { return !d.rules.mayChangeDecision(p, d.strategy, d.gate, e) })
		}
		if len(events) == 0 && (d.strategy == queueSkip || d.gatesChecked) {
			q.place(p, d)
			q.mu.Unlock()
			return
		}
		q.mu.Unlock()
		q.callPlugins(ctx, pods, lastGate, events, &d)
	}
}

// callPlugins evaluates the hints for events, and then the hold and the PreEnqueue plugins
// unless no hint requeues p. It is called without q.mu.
func (q *Queue) callPlugins(ctx context.Context, pods []checkedPod, lastGate string, events []event, d *requeueDecision) {
	for _, e := range events {
		for _, p := range podsToWake(pods, lastGate) {
			d.strategy = max(d.strategy, d.rules.evaluateHints(klog.FromContext(ctx), p.entity, p.pod, e))
		}
	}
	if d.strategy == queueSkip && !d.rules.mayUngate(lastGate, events) {
		return
	}
	d.hold, d.gate, d.gated, d.gatesChecked = Hold{}, "", nil, true
	for _, p := range pods {
		if d.hold = d.rules.Hold(p.pod); d.hold.Reason != "" {
			return
		}
	}
	for _, p := range pods {
		if d.gate = d.rules.PreEnqueue(ctx, p.pod, p.lastGate); d.gate != "" {
			d.gated = p.entity
			return
		}
	}
	if lastGate != "" {
		// The event that woke the pod when the plugin gated it does not come again.
		d.strategy = max(d.strategy, queueAfterBackoff)
	}
}

// place puts p where d says. The caller holds q.mu.
func (q *Queue) place(p *Entity, d requeueDecision) {
	wasHeld, oldPlace, oldGate := p.held.Reason != "", p.place, p.gate
	q.enqueue(p, d)
	if p.place == Gated && (wasHeld || oldPlace != Gated || oldGate != p.gate) {
		for pod := range p.pods() {
			pod.holdOver = pod.holdOver || wasHeld
			q.markGateAfterHold(pod)
		}
	}
}

// holdUnservedOrQuarantined holds p without calling plugins if its profile is not
// served or p is quarantined. It reports whether it did. The caller holds q.mu.
func (q *Queue) holdUnservedOrQuarantined(p *Entity, rules *Rules) (isHeld bool) {
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
func (q *Queue) missedStrategy(p *Entity, rules *Rules) (strategy queueingStrategy) {
	if p.rules != rules {
		strategy = rules.diff(p.rules).strategyFor(p)
	}
	if p.recheck {
		p.recheck, strategy = false, max(strategy, p.recheckStrategy())
	}
	return strategy
}

// requeueDecision is what requeue found out about a pod or group.
type requeueDecision struct {
	strategy queueingStrategy
	// gate is the PreEnqueue plugin that gates gated.
	gate  string
	gated *Entity
	hold  Hold
	rules *Rules
	cause string
	// gatesChecked says that the PreEnqueue plugins were called.
	gatesChecked bool
}

// forgetGates has the gates checked again. The events that had them checked are not evaluated
// again, so that a gate that these have opened would stay closed otherwise.
func (d *requeueDecision) forgetGates() {
	if d.gatesChecked {
		d.gatesChecked, d.strategy = false, max(d.strategy, queueRecheck)
	}
}

// enqueue puts p into its new place. The caller holds q.mu.
func (q *Queue) enqueue(p *Entity, d requeueDecision) {
	q.inFlight.end(p)
	switch {
	case d.strategy > queueSkip && d.hold.Reason != "":
		q.holdPod(p, d.hold)
		return
	case d.strategy <= queueRecheck:
		if d.gatesChecked && d.hold.Reason == "" {
			p.setGate(d.gate, d.gated)
		} else if p.gate != "" {
			p.addRejector(p.gate)
		}
		q.addUnschedulable(p, d.cause, p.place != Unschedulable && p.place != Gated)
		return
	}
	p.setAdmitted(d.rules.Hash)
	p.setGate(d.gate, d.gated)
	if d.gate != "" {
		p.flushed = false
		q.addUnschedulable(p, d.cause, true)
		return
	}
	now, sub := q.clock.Now(), q.subQueueOf(d.rules.Sort)
	p.backoffUntil = d.rules.backoffExpiration(p, q.windows)
	if d.strategy == queueAfterBackoff && q.isBackingOff(p, now) {
		p.place = Backoff
		sub.backoffHeap(p).add(p)
		countIncoming(p, "backoff", d.cause)
	} else {
		p.place = Active
		p.setInitialAttempt(now)
		sub.active.add(p)
		countIncoming(p, "active", d.cause)
	}
}

// addUnschedulable puts p where only an event or the flush finds it: it becomes
// gated if a plugin gates it, else unschedulable. count says whether the metrics
// count it as incoming. The caller holds q.mu.
func (q *Queue) addUnschedulable(p *Entity, cause string, count bool) {
	p.place = Unschedulable
	if p.gate != "" {
		p.place = Gated
	}
	if q.unschedulable[p.profile] == nil {
		q.unschedulable[p.profile] = unschedulableIndex{}
	}
	q.unschedulable[p.profile].add(p)
	if count {
		countIncoming(p, "unschedulable", cause)
	}
}

// holdPod holds p for the given reason. The caller holds q.mu.
func (q *Queue) holdPod(p *Entity, hold Hold) {
	q.remove(p)
	q.inFlight.end(p)
	if q.rules[p.profile] == nil {
		// No event is evaluated for the pod from here on: a profile that comes later
		// has to evaluate it anew.
		p.rules = nil
	}
	wasHeld := p.place == Held
	p.place = Held
	for pod := range p.pods() {
		if (!wasHeld || pod.held != hold) && hold.Reason != "" {
			q.holdChanges[pod] = true
			framework.Notify(q.holdsChanged)
		}
		pod.held, pod.holdOver = hold, false
	}
	p.held = hold
}

// sortByTimestamp sorts pods by timestamp and UID, so that the same history wakes
// them in the same order: map iteration has none.
func sortByTimestamp(pods []*Entity) {
	slices.SortFunc(pods, func(a, b *Entity) int {
		return cmp.Or(a.timestamp.Compare(b.timestamp), cmp.Compare(a.pod.UID, b.pod.UID))
	})
}
