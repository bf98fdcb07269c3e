package queue

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/fault"
)

// Adopt makes rules those of the profile called name, and returns when its
// pods are judged by them. Who waits keeps attempts and backoff, and is tried
// again only where the change may have touched what keeps it. The pods are gone
// through in slices; whoever is popped, woken or put down before its turn comes
// is judged then. It reports whether more, or less, is to be told of pods that
// wait: of those that are refused another attempt tells, of the others nobody.
func (q *Queue) SetProfile(ctx context.Context, name string, rules *Rules) (told bool) {
	q.mu.Lock()
	q.clearDeficit(name, rules)
	before := q.rules[name]
	q.addLeaving(before)
	q.rules[name] = rules
	delete(q.profileHolds, name)
	delete(q.heldProfiles, name)
	q.syncSubQueues()
	q.mu.Unlock()
	q.requeueMatching(ctx, name, q.applyRules)
	q.removeLeaving(before)
	return rules.diff(before).explanations
}

// turn judges p by the rules that its profile has now. It returns skip for one
// that stays where it is, be it in another heap, and for one that is on its way:
// whoever puts that one down judges it. Called with the lock.
func (q *Queue) applyRules(p *Pod) queueingStrategy {
	rules := q.rules[p.profile]
	if rules == nil || p.rules == rules || !p.isPlaced() {
		return queueSkip
	}
	want := rules.diff(p.rules).strategyFor(p)
	if p.heap != nil && fault.HeapNotRebuilt {
		want = queueSkip
	}
	p.rules = rules
	if want > queueSkip {
		return want
	}
	p.admittedBy = rules.Hash
	q.moveToHeap(p, rules)
	return queueSkip
}

// move puts p, which may be in a heap, into the one where rules want it: the
// order may be another, or how long a backoff lasts. Called with the lock.
func (q *Queue) moveToHeap(p *Pod, rules *Rules) {
	if p.heap == nil || p.heap == q.quarantined || fault.HeapNotRebuilt {
		return
	}
	to, until := q.subQueueOf(rules.Sort).active, p.backoffUntil
	if p.place == Backoff {
		to, until = q.subQueueOf(rules.Sort).backoffHeap(p), rules.backoffExpiration(p)
	}
	if to != p.heap || !until.Equal(p.backoffUntil) {
		p.heap.remove(p)
		p.backoffUntil = until
		to.add(p)
	}
}

// Reconsider asks again about pods of the profile called name that wait, and
// about which concerned is true: something that holds pods may have changed.
func (q *Queue) Reconsider(ctx context.Context, name string, concerned func(*v1.Pod) bool) {
	q.requeueMatching(ctx, name, func(p *Pod) queueingStrategy {
		switch {
		case !concerned(p.pod):
			return queueSkip
		case !p.isPlaced():
			// Whoever puts it down asks.
			p.recheck = true
			return queueSkip
		}
		return p.recheckStrategy()
	})
}

// unheld is how eagerly p is wanted where nothing holds it, and nothing else is
// new.
func (p *Pod) recheckStrategy() queueingStrategy {
	if p.place == Unschedulable || p.place == Gated || p.place == InFlight {
		return queueRecheck
	}
	return p.swapStrategy()
}

// askAgain lifts those of a profile's pods that look wants, slice by slice, and
// puts them where they belong. look is called with the lock held.
func (q *Queue) requeueMatching(ctx context.Context, name string, look func(*Pod) queueingStrategy) {
	var again []*Pod
	wants := map[*Pod]queueingStrategy{}
	q.forEachInSlices(name, func(p *Pod) {
		want := look(p)
		if want > queueSkip && p.isPlaced() {
			q.detach(p)
			again = append(again, p)
			wants[p] = want
		}
	}, func() {
		if len(again) > 0 {
			q.requeueAll(ctx, ProfileSwap.CustomLabel, func(p *Pod) queueingStrategy { return wants[p] }, again...)
		}
		again = nil
		clear(wants)
	})
}

// Abandon parks all pods of the profile called name, which is served no more,
// and tells them why. A pod in flight is parked when it comes back; most do
// not, since what was begun is finished.
func (q *Queue) RemoveProfile(name string, hold Hold) { q.holdPodsOf(name, hold, false) }

// Withhold is Abandon for a profile that is there and does not run: pods that come
// later are held as well, until Adopt or Abandon.
func (q *Queue) HoldProfile(name string, hold Hold) { q.holdPodsOf(name, hold, true) }

func (q *Queue) holdPodsOf(name string, hold Hold, withhold bool) {
	q.mu.Lock()
	before := q.rules[name]
	q.addLeaving(before)
	delete(q.rules, name)
	q.profileHolds[name] = hold
	delete(q.heldProfiles, name)
	if withhold {
		q.heldProfiles[name] = true
	}
	q.cleanUpProfile(name)
	q.syncSubQueues()
	q.mu.Unlock()
	var told []*v1.Pod
	q.forEachInSlices(name, func(p *Pod) {
		if q.rules[name] == nil && p.isPlaced() && q.holdPod(p, hold) {
			told = append(told, p.pod)
		}
	}, func() {
		for _, pod := range told {
			q.notifyHold(pod, hold)
		}
		told = nil
	})
	q.removeLeaving(before)
}

// closeAccount forgets what is kept by the name of a profile that is not served:
// what it owes, and, when no pod of it is left and none that comes is held, why its
// pods are held. Called with the lock.
func (q *Queue) cleanUpProfile(name string) {
	if q.rules[name] != nil || fault.AccountsOutliveProfile {
		return
	}
	delete(q.deficits, name)
	if q.podsByProfile.profiles[name] == nil && !q.heldProfiles[name] {
		delete(q.profileHolds, name)
	}
}

// Held returns the parked pods and why each is held.
func (q *Queue) HeldPods() map[*v1.Pod]Hold {
	q.mu.Lock()
	defer q.mu.Unlock()
	held := map[*v1.Pod]Hold{}
	for _, p := range q.pods {
		if p.place == Held && p.held.Reason != "" {
			held[p.pod] = p.held
		}
	}
	return held
}

// Gates returns the gated pods and the plugin that keeps each from being tried.
func (q *Queue) GatedPods() map[*v1.Pod]string {
	q.mu.Lock()
	defer q.mu.Unlock()
	gates := map[*v1.Pod]string{}
	for _, p := range q.pods {
		if p.place == Gated {
			gates[p.pod] = p.gate
		}
	}
	return gates
}

// HoldOf returns why a pod is parked; false when it is not.
func (q *Queue) HoldOf(uid types.UID) (Hold, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p, ok := q.pods[uid]
	if !ok || p.place != Held || p.held.Reason == "" {
		return Hold{}, false
	}
	return p.held, true
}

// GateOf returns the plugin that keeps a gated pod from being tried; false when
// the pod is not gated.
func (q *Queue) GatingPlugin(uid types.UID) (gate string, gated bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p, ok := q.pods[uid]
	if !ok || p.place != Gated {
		return "", false
	}
	return p.gate, true
}

// Counts says where the pods of the profile called name are.
func (q *Queue) Counts(name string) decision.QueueCounts {
	q.mu.Lock()
	defer q.mu.Unlock()
	var c decision.QueueCounts
	for _, p := range q.pods {
		if p.profile != name {
			continue
		}
		switch p.place {
		case Active:
			c.Active++
		case Backoff:
			c.Backoff++
		case Unschedulable, "":
			c.Unschedulable++
		case Gated:
			c.Gated++
		case Held:
			if p.held.Reason == Quarantined {
				c.Quarantined++
			} else {
				c.Held++
			}
		case InFlight:
			c.InFlight++
		}
	}
	return c
}

// Has says whether a pod waits, or is being tried.
func (q *Queue) Has(uid types.UID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pods[uid] != nil
}

// Serves says whether the queue has rules for a profile called name.
func (q *Queue) Serves(name string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.rules[name] != nil
}
