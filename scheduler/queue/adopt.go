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
func (q *Queue) Adopt(ctx context.Context, name string, rules *Rules) (told bool) {
	q.mu.Lock()
	q.forgive(name, rules)
	before := q.rules[name]
	q.leaves(before)
	q.rules[name] = rules
	delete(q.abandoned, name)
	delete(q.withheld, name)
	q.relane()
	q.mu.Unlock()
	q.askAgain(ctx, name, q.turn)
	q.left(before)
	return rules.since(before).told
}

// turn judges p by the rules that its profile has now. It returns skip for one
// that stays where it is, be it in another heap, and for one that is on its way:
// whoever puts that one down judges it. Called with the lock.
func (q *Queue) turn(p *Pod) strategy {
	rules := q.rules[p.profile]
	if rules == nil || p.by == rules || !p.rests() {
		return skip
	}
	want := rules.since(p.by).means(p)
	if p.heap != nil && fault.HeapNotRebuilt {
		want = skip
	}
	p.by = rules
	if want > skip {
		return want
	}
	p.admitted = rules.Hash
	q.move(p, rules)
	return skip
}

// move puts p, which may be in a heap, into the one where rules want it: the
// order may be another, or how long a backoff lasts. Called with the lock.
func (q *Queue) move(p *Pod, rules *Rules) {
	if p.heap == nil || p.heap == q.asides || fault.HeapNotRebuilt {
		return
	}
	to, until := q.lane(rules.Sort).active, p.backoffUntil
	if p.where == Backoff {
		to, until = q.lane(rules.Sort).backoffHeap(p), rules.backoff(p)
	}
	if to != p.heap || !until.Equal(p.backoffUntil) {
		p.heap.drop(p)
		p.backoffUntil = until
		to.add(p)
	}
}

// Reconsider asks again about pods of the profile called name that wait, and
// about which concerned is true: something that holds pods may have changed.
func (q *Queue) Reconsider(ctx context.Context, name string, concerned func(*v1.Pod) bool) {
	q.askAgain(ctx, name, func(p *Pod) strategy {
		switch {
		case !concerned(p.pod):
			return skip
		case !p.rests():
			// Whoever puts it down asks.
			p.doubted = true
			return skip
		}
		return p.unheld()
	})
}

// unheld is how eagerly p is wanted where nothing holds it, and nothing else is
// new.
func (p *Pod) unheld() strategy {
	if p.where == Unschedulable || p.where == Gated || p.where == InFlight {
		return unlessKept
	}
	return p.wanted()
}

// askAgain lifts those of a profile's pods that look wants, slice by slice, and
// puts them where they belong. look is called with the lock held.
func (q *Queue) askAgain(ctx context.Context, name string, look func(*Pod) strategy) {
	var again []*Pod
	wants := map[*Pod]strategy{}
	q.inSlices(name, func(p *Pod) {
		want := look(p)
		if want > skip && p.rests() {
			q.lift(p)
			again = append(again, p)
			wants[p] = want
		}
	}, func() {
		if len(again) > 0 {
			q.place(ctx, ProfileSwap.CustomLabel, func(p *Pod) strategy { return wants[p] }, again...)
		}
		again = nil
		clear(wants)
	})
}

// Abandon parks all pods of the profile called name, which is served no more,
// and tells them why. A pod in flight is parked when it comes back; most do
// not, since what was begun is finished.
func (q *Queue) Abandon(name string, hold Hold) { q.abandon(name, hold, false) }

// Withhold is Abandon for a profile that is there and does not run: pods that come
// later are held as well, until Adopt or Abandon.
func (q *Queue) Withhold(name string, hold Hold) { q.abandon(name, hold, true) }

func (q *Queue) abandon(name string, hold Hold, withhold bool) {
	q.mu.Lock()
	before := q.rules[name]
	q.leaves(before)
	delete(q.rules, name)
	q.abandoned[name] = hold
	delete(q.withheld, name)
	if withhold {
		q.withheld[name] = true
	}
	q.closeAccount(name)
	q.relane()
	q.mu.Unlock()
	var told []*v1.Pod
	q.inSlices(name, func(p *Pod) {
		if q.rules[name] == nil && p.rests() && q.putParked(p, hold) {
			told = append(told, p.pod)
		}
	}, func() {
		for _, pod := range told {
			q.tell(pod, hold)
		}
		told = nil
	})
	q.left(before)
}

// closeAccount forgets what is kept by the name of a profile that is not served:
// what it owes, and, when no pod of it is left and none that comes is held, why its
// pods are held. Called with the lock.
func (q *Queue) closeAccount(name string) {
	if q.rules[name] != nil || fault.AccountsOutliveProfile {
		return
	}
	delete(q.debts, name)
	if q.roster.profiles[name] == nil && !q.withheld[name] {
		delete(q.abandoned, name)
	}
}

// Held returns the parked pods and why each is held.
func (q *Queue) Held() map[*v1.Pod]Hold {
	q.mu.Lock()
	defer q.mu.Unlock()
	held := map[*v1.Pod]Hold{}
	for _, p := range q.pods {
		if p.where == Parked && p.held.Reason != "" {
			held[p.pod] = p.held
		}
	}
	return held
}

// Gates returns the gated pods and the plugin that keeps each from being tried.
func (q *Queue) Gates() map[*v1.Pod]string {
	q.mu.Lock()
	defer q.mu.Unlock()
	gates := map[*v1.Pod]string{}
	for _, p := range q.pods {
		if p.where == Gated {
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
	if !ok || p.where != Parked || p.held.Reason == "" {
		return Hold{}, false
	}
	return p.held, true
}

// GateOf returns the plugin that keeps a gated pod from being tried; false when
// the pod is not gated.
func (q *Queue) GateOf(uid types.UID) (gate string, gated bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p, ok := q.pods[uid]
	if !ok || p.where != Gated {
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
		switch p.where {
		case Active:
			c.Active++
		case Backoff:
			c.Backoff++
		case Unschedulable, "":
			c.Unschedulable++
		case Gated:
			c.Gated++
		case Parked:
			if p.held.Reason == SetAside {
				c.SetAside++
			} else {
				c.Parked++
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
