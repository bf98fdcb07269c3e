package queue

import (
	"context"

	v1 "k8s.io/api/core/v1"
)

// SetProfile replaces the rules of the named profile and returns when each of
// its pods has been compared with them. Waiting pods keep their attempts and
// backoff; the queue requeues only those that the difference between the old and
// the new rules may concern. It visits the pods in slices. A pod that is popped,
// woken or requeued before its slice is compared at that moment instead.
//
// Where the new rules explain waiting pods more, or less, than the old ones, the held
// and gated pods are in the next TakeHoldChanges. The next attempt of a refused pod
// rewrites its explanation.
func (q *Queue) SetProfile(ctx context.Context, name string, rules *Rules) {
	q.mu.Lock()
	q.clearDeficit(name, rules)
	old := q.rules[name]
	q.addLeaving(old)
	q.rules[name] = rules
	delete(q.profileHolds, name)
	delete(q.heldProfiles, name)
	q.syncSubQueues()
	q.mu.Unlock()
	var last lastDiff
	q.requeueMatching(ctx, name, func(p *Entity) queueingStrategy { return q.applyRules(p, &last) })
	q.removeLeaving(old)
	if rules.diff(old).explanations {
		q.markHeldAndGated(name)
	}
}

// applyRules compares the current rules of p's profile with those that p was
// evaluated under, and returns how to requeue p. It returns queueSkip for a pod
// that stays in its place, possibly in another heap, and for a pod that has no
// place at the moment: requeue compares that one. last is that of the walk. The
// caller holds q.mu.
func (q *Queue) applyRules(p *Entity, last *lastDiff) queueingStrategy {
	rules := q.rules[p.profile]
	if rules == nil || p.rules == rules || !p.isPlaced() {
		return queueSkip
	}
	strategy := last.between(p.rules, rules).strategyFor(p)
	p.rules = rules
	if strategy > queueSkip {
		return strategy
	}
	p.admittedBy = rules.Hash
	q.moveToHeap(p, rules)
	return queueSkip
}

// moveToHeap moves p, if a heap holds it, to the heap and position that rules
// give it: the sort or the duration of the backoff may differ. The caller holds
// q.mu.
func (q *Queue) moveToHeap(p *Entity, rules *Rules) {
	if p.heap == nil || p.heap == q.quarantined {
		return
	}
	to, until := q.subQueueOf(rules.Sort).active, p.backoffUntil
	if p.place == Backoff {
		to, until = q.subQueueOf(rules.Sort).backoffHeap(p), rules.backoffExpiration(p, q.windows)
	}
	if to != p.heap || !until.Equal(p.backoffUntil) {
		p.heap.remove(p)
		p.backoffUntil = until
		to.add(p)
	}
}

// Reconsider checks again whether a hold applies to the waiting pods of the
// named profile for which concerned is true. It is for holds that change without
// the rules, such as those that depend on the labels of a namespace.
func (q *Queue) Reconsider(ctx context.Context, name string, concerned func(*v1.Pod) bool) {
	q.requeueMatching(ctx, name, func(p *Entity) queueingStrategy {
		switch {
		case !concerned(p.pod):
			return queueSkip
		case !p.isPlaced():
			// requeue checks it.
			p.recheck = true
			return queueSkip
		}
		return p.recheckStrategy()
	})
}

// recheckStrategy returns how to requeue p when only the holds may have changed.
func (p *Entity) recheckStrategy() queueingStrategy {
	if p.place == Unschedulable || p.place == Gated || p.place == InFlight {
		return queueRecheck
	}
	return p.swapStrategy()
}

// requeueMatching visits the pods of a profile in slices and requeues those for
// which strategyOf returns more than queueSkip. strategyOf is called with q.mu
// held.
func (q *Queue) requeueMatching(ctx context.Context, name string, strategyOf func(*Entity) queueingStrategy) {
	var detached []*Entity
	strategies := map[*Entity]queueingStrategy{}
	q.forEachInSlices(name, func(p *Entity) {
		strategy := strategyOf(p)
		if strategy > queueSkip && p.isPlaced() {
			q.detach(p)
			detached = append(detached, p)
			strategies[p] = strategy
		}
	}, func() {
		if len(detached) > 0 {
			q.requeueAll(ctx, ProfileSwap.CustomLabel, func(p *Entity) queueingStrategy { return strategies[p] }, detached...)
		}
		detached = nil
		clear(strategies)
		q.giveTurn(ctx)
	})
}

// RemoveProfile holds all pods of the named profile, which is not served any
// more. A pod in flight is held if it comes back; most
// do not, since a binding cycle that has begun is finished.
func (q *Queue) RemoveProfile(name string, hold Hold) { q.holdPodsOf(name, hold, false) }

// HoldProfile is RemoveProfile for a profile that exists and does not run: pods
// that are added later are held too, until SetProfile or RemoveProfile.
func (q *Queue) HoldProfile(name string, hold Hold) { q.holdPodsOf(name, hold, true) }

// ReleaseProfile forgets the pods of a name that HoldProfile held, and returns them: another
// scheduler may serve the name. They are added again when HoldProfile or SetProfile is called for
// it and its pods are listed. It does nothing for a profile that is served.
func (q *Queue) ReleaseProfile(ctx context.Context, name string) (released []*v1.Pod) {
	q.mu.Lock()
	delete(q.heldProfiles, name)
	q.cleanUpProfile(name)
	q.mu.Unlock()
	var left detachedEntities
	q.forEachInSlices(name, func(p *Entity) {
		if q.rules[name] != nil || p.podGroup != nil {
			return // a group goes with its last member
		}
		if p.memberOf != nil {
			left.add(q.leaveGroup(p))
		}
		released = append(released, p.pod)
		q.deletePod(p)
	}, func() {
		// A group may have members that name another profile.
		q.requeueDetached(ctx, "UnscheduledPodDelete", left)
		left = detachedEntities{}
	})
	return released
}

func (q *Queue) holdPodsOf(name string, hold Hold, holdNewPods bool) {
	q.mu.Lock()
	old := q.rules[name]
	q.addLeaving(old)
	delete(q.rules, name)
	q.profileHolds[name] = hold
	delete(q.heldProfiles, name)
	if holdNewPods {
		q.heldProfiles[name] = true
	}
	q.cleanUpProfile(name)
	q.syncSubQueues()
	q.mu.Unlock()
	q.forEachInSlices(name, func(p *Entity) {
		if q.rules[name] == nil && p.isPlaced() {
			q.holdPod(p, hold)
		}
	}, func() {})
	q.removeLeaving(old)
}

// cleanUpProfile drops what the queue stores by the name of a profile that it
// does not serve: its time deficit and, once none of its pods is left and new
// ones are not held, the hold of its pods. The caller holds q.mu.
func (q *Queue) cleanUpProfile(name string) {
	if q.rules[name] != nil {
		return
	}
	delete(q.deficits, name)
	if q.podsByProfile.profiles[name] == nil && !q.heldProfiles[name] {
		delete(q.profileHolds, name)
	}
}
