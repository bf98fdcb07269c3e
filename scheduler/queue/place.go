package queue

import (
	"cmp"
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/fault"
)

// lift takes p up from where it rests. Until put puts it down again it stands
// nowhere, and the events that happen are kept for it. Called with the lock.
func (q *Queue) lift(p *Pod) {
	q.leave(p)
	q.flights.begin(p)
}

// leave takes p out of the heap or the index that holds it. Called with the
// lock.
func (q *Queue) leave(p *Pod) {
	if p.heap != nil {
		p.heap.drop(p)
	}
	if p.dorm != nil {
		asleep := q.dormant[p.profile]
		asleep.drop(p)
		if len(asleep) == 0 {
			delete(q.dormant, p.profile)
		}
	}
}

// rests says whether p stands somewhere: it is neither tried now nor on its
// way from one place to another.
func (p *Pod) rests() bool { return p.where != InFlight && p.flight == nil }

// place puts each of the lifted pods where it belongs. Until all are put down
// nothing is popped: the best of them may be the last. want is what is known
// of a pod so far: skip where only an event can wake it.
func (q *Queue) place(ctx context.Context, cause string, want func(*Pod) strategy, pods ...*Pod) {
	// One alone has no better one to wait for, nor may its plugin, should it
	// take its time, hold up the pods of others.
	together := len(pods) > 1
	if together {
		q.mu.Lock()
		q.batches++
		q.mu.Unlock()
	}
	for _, p := range pods {
		q.settle(ctx, p, want(p), cause)
	}
	if together {
		q.mu.Lock()
		q.batches--
		q.mu.Unlock()
	}
	// Whatever kept Pop from looking is over.
	q.wake()
}

// always wants the same of every pod.
func always(want strategy) func(*Pod) strategy { return func(*Pod) strategy { return want } }

// settle decides where p goes next and puts it there. Plugins are asked
// without the lock; whatever happens meanwhile is heard before the pod is put
// down.
func (q *Queue) settle(ctx context.Context, p *Pod, want strategy, cause string) {
	gate, hold, asked := "", Hold{}, false
	for {
		q.mu.Lock()
		if p.gone {
			q.mu.Unlock()
			return
		}
		rules, pod, lastGate := q.rules[p.profile], p.pod, p.gate
		heard := q.flights.hear(p)
		if news, out := q.putOut(p, rules); out {
			hold = p.held
			q.mu.Unlock()
			if news {
				q.tell(pod, hold)
			}
			return
		}
		if news := q.swapped(p, rules); news > skip || p.by != rules {
			// What was asked of the rules before counts no more.
			p.by, want, asked = rules, max(want, news), false
		}
		if asked && want > unlessKept {
			heard = slices.DeleteFunc(heard, func(e event) bool { return !rules.reopens(p, want, gate, e) })
		}
		if len(heard) == 0 && (want == skip || asked) {
			wasHeld, was, wasGate := p.held.Reason != "", p.where, p.gate
			news := q.put(p, verdict{want, gate, hold, rules, cause, asked})
			gated := p.where == Gated
			gate = p.gate
			q.mu.Unlock()
			if gated && (was != Gated || wasGate != gate) && q.onGate != nil {
				q.onGate(pod, gate)
			}
			if news {
				q.tell(pod, hold)
			} else if wasHeld && gated {
				// The pod's status still gives the reason that is over.
				q.tell(pod, Hold{Reason: v1.PodReasonSchedulingGated, Message: GateMessage(gate)})
			}
			return
		}
		q.mu.Unlock()

		for _, e := range heard {
			want = max(want, rules.worth(logger(ctx), p, pod, e))
		}
		if want == skip && !rules.mayOpen(lastGate, heard) {
			continue
		}
		hold, asked = rules.Hold(pod), true
		if hold.Reason == "" {
			gate = rules.PreEnqueue(ctx, pod, lastGate)
		}
		if lastGate != "" && hold.Reason == "" && gate == "" {
			// It was wanted when the gate shut it out, and that is not said again.
			want = max(want, afterBackoff)
		}
	}
}

// putOut parks p where nobody is to be asked about it: its profile is served no
// more, or it is set aside. Called with the lock. It reports whether it did, and
// whether that is news.
func (q *Queue) putOut(p *Pod, rules *Rules) (news, out bool) {
	if rules == nil {
		return q.putParked(p, q.abandoned[p.profile]), true
	}
	if hold := q.aside(p, rules); hold.Reason != "" && !fault.NeverSetAside {
		return q.putAside(p, hold), true
	}
	return false, false
}

// swapped says what has to be done about p, which is on its way, since it was
// judged by other rules, or since there is doubt about what holds it. Called
// with the lock.
func (q *Queue) swapped(p *Pod, rules *Rules) (want strategy) {
	if p.by != rules && !fault.SwapUnheardOnTheWay {
		want = rules.since(p.by).means(p)
	}
	if p.doubted {
		p.doubted, want = false, max(want, p.unheld())
	}
	return want
}

// tell says that a pod is held. Called without the lock.
func (q *Queue) tell(pod *v1.Pod, hold Hold) {
	if q.onHold != nil && hold.Reason != "" {
		q.onHold(pod, hold)
	}
}

// verdict is what settle found out about a pod.
type verdict struct {
	want  strategy
	gate  string
	hold  Hold
	rules *Rules
	cause string
	// asked says that the gates were asked.
	asked bool
}

// put puts p down. Called with the lock. It reports whether somebody has to be
// told that the pod is held.
func (q *Queue) put(p *Pod, v verdict) (news bool) {
	q.flights.end(p)
	switch {
	case v.want > skip && v.hold.Reason != "":
		return q.putParked(p, v.hold)
	case v.want <= unlessKept:
		if v.asked && v.hold.Reason == "" {
			p.gate = v.gate
		}
		if p.gate != "" {
			p.rejects(p.gate)
		}
		q.putDormant(p, v.cause, p.where != Unschedulable && p.where != Gated)
		return false
	}
	p.held, p.gate, p.admitted = Hold{}, v.gate, v.rules.Hash
	if v.gate != "" {
		p.flushed = false
		p.rejects(v.gate)
		q.putDormant(p, v.cause, true)
		return false
	}
	now, lane := q.clock.Now(), q.lane(v.rules.Sort)
	p.backoffUntil = v.rules.backoff(p)
	if v.want == afterBackoff && backingOff(p, now) {
		p.where = Backoff
		lane.backoffHeap(p).add(p)
		incoming.WithLabelValues("backoff", v.cause).Inc()
	} else {
		p.where = Active
		if p.initialAttempt == nil {
			p.initialAttempt = &now
		}
		lane.active.add(p)
		incoming.WithLabelValues("active", v.cause).Inc()
	}
	return false
}

// putDormant lays p down where only an event, or the flush, finds it. Called
// with the lock.
func (q *Queue) putDormant(p *Pod, cause string, arrives bool) {
	p.where = Unschedulable
	if p.gate != "" {
		p.where = Gated
	}
	if q.dormant[p.profile] == nil {
		q.dormant[p.profile] = dorms{}
	}
	q.dormant[p.profile].add(p)
	if arrives {
		incoming.WithLabelValues("unschedulable", cause).Inc()
	}
}

// putParked parks p for the given reason. Called with the lock. It reports
// whether the reason is news.
func (q *Queue) putParked(p *Pod, hold Hold) (news bool) {
	q.leave(p)
	q.flights.end(p)
	if q.rules[p.profile] == nil {
		// Nobody listens for it: whoever comes asks about it.
		p.by = nil
	}
	news = p.where != Parked || p.held != hold || fault.HeldToldForEver
	p.where, p.held = Parked, hold
	return news
}

// sortPods orders pods as they came, so that the same history wakes them in
// the same order: maps have none.
func sortPods(pods []*Pod) {
	slices.SortFunc(pods, func(a, b *Pod) int {
		return cmp.Or(a.timestamp.Compare(b.timestamp), cmp.Compare(a.pod.UID, b.pod.UID))
	})
}
