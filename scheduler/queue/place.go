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
func (q *Queue) detach(p *Pod) {
	q.remove(p)
	q.inFlight.begin(p)
}

// leave takes p out of the heap or the index that holds it. Called with the
// lock.
func (q *Queue) remove(p *Pod) {
	if p.heap != nil {
		p.heap.remove(p)
	}
	if p.group != nil {
		asleep := q.unschedulable[p.profile]
		asleep.remove(p)
		if len(asleep) == 0 {
			delete(q.unschedulable, p.profile)
		}
	}
}

// rests says whether p stands somewhere: it is neither tried now nor on its
// way from one place to another.
func (p *Pod) isPlaced() bool { return p.place != InFlight && p.marker == nil }

// place puts each of the lifted pods where it belongs. Until all are put down
// nothing is popped: the best of them may be the last. want is what is known
// of a pod so far: skip where only an event can wake it.
func (q *Queue) requeueAll(ctx context.Context, cause string, want func(*Pod) queueingStrategy, pods ...*Pod) {
	// One alone has no better one to wait for, nor may its plugin, should it
	// take its time, hold up the pods of others.
	together := len(pods) > 1
	if together {
		q.mu.Lock()
		q.pendingBatches++
		q.mu.Unlock()
	}
	for _, p := range pods {
		q.requeue(ctx, p, want(p), cause)
	}
	if together {
		q.mu.Lock()
		q.pendingBatches--
		q.mu.Unlock()
	}
	// Whatever kept Pop from looking is over.
	q.signal()
}

// always wants the same of every pod.
func constantStrategy(want queueingStrategy) func(*Pod) queueingStrategy {
	return func(*Pod) queueingStrategy { return want }
}

// settle decides where p goes next and puts it there. Plugins are asked
// without the lock; whatever happens meanwhile is heard before the pod is put
// down.
func (q *Queue) requeue(ctx context.Context, p *Pod, want queueingStrategy, cause string) {
	gate, hold, asked := "", Hold{}, false
	for {
		q.mu.Lock()
		if p.gone {
			q.mu.Unlock()
			return
		}
		rules, pod, lastGate := q.rules[p.profile], p.pod, p.gate
		heard := q.inFlight.takeEvents(p)
		if news, out := q.holdUnservedOrQuarantined(p, rules); out {
			hold = p.held
			q.mu.Unlock()
			if news {
				q.notifyHold(pod, hold)
			}
			return
		}
		if news := q.missedStrategy(p, rules); news > queueSkip || p.rules != rules {
			// What was asked of the rules before counts no more.
			p.rules, want, asked = rules, max(want, news), false
		}
		if asked && want > queueRecheck {
			heard = slices.DeleteFunc(heard, func(e event) bool { return !rules.mayChangeDecision(p, want, gate, e) })
		}
		if len(heard) == 0 && (want == queueSkip || asked) {
			wasHeld, was, wasGate := p.held.Reason != "", p.place, p.gate
			news := q.enqueue(p, requeueDecision{want, gate, hold, rules, cause, asked})
			gated := p.place == Gated
			gate = p.gate
			q.mu.Unlock()
			if gated && (was != Gated || wasGate != gate) && q.onGate != nil {
				q.onGate(pod, gate)
			}
			if news {
				q.notifyHold(pod, hold)
			} else if wasHeld && gated {
				// The pod's status still gives the reason that is over.
				q.notifyHold(pod, Hold{Reason: v1.PodReasonSchedulingGated, Message: GateMessage(gate)})
			}
			return
		}
		q.mu.Unlock()

		for _, e := range heard {
			want = max(want, rules.evaluateHints(logger(ctx), p, pod, e))
		}
		if want == queueSkip && !rules.mayUngate(lastGate, heard) {
			continue
		}
		hold, asked = rules.Hold(pod), true
		if hold.Reason == "" {
			gate = rules.PreEnqueue(ctx, pod, lastGate)
		}
		if lastGate != "" && hold.Reason == "" && gate == "" {
			// It was wanted when the gate shut it out, and that is not said again.
			want = max(want, queueAfterBackoff)
		}
	}
}

// putOut parks p where nobody is to be asked about it: its profile is served no
// more, or it is set aside. Called with the lock. It reports whether it did, and
// whether that is news.
func (q *Queue) holdUnservedOrQuarantined(p *Pod, rules *Rules) (news, out bool) {
	if rules == nil {
		return q.holdPod(p, q.profileHolds[p.profile]), true
	}
	if hold := q.quarantineHold(p, rules); hold.Reason != "" && !fault.NeverSetAside {
		return q.quarantinePod(p, hold), true
	}
	return false, false
}

// swapped says what has to be done about p, which is on its way, since it was
// judged by other rules, or since there is doubt about what holds it. Called
// with the lock.
func (q *Queue) missedStrategy(p *Pod, rules *Rules) (want queueingStrategy) {
	if p.rules != rules && !fault.SwapUnheardOnTheWay {
		want = rules.diff(p.rules).strategyFor(p)
	}
	if p.recheck {
		p.recheck, want = false, max(want, p.recheckStrategy())
	}
	return want
}

// tell says that a pod is held. Called without the lock.
func (q *Queue) notifyHold(pod *v1.Pod, hold Hold) {
	if q.onHold != nil && hold.Reason != "" {
		q.onHold(pod, hold)
	}
}

// verdict is what settle found out about a pod.
type requeueDecision struct {
	strategy queueingStrategy
	gate     string
	hold     Hold
	rules    *Rules
	cause    string
	// asked says that the gates were asked.
	gatesChecked bool
}

// put puts p down. Called with the lock. It reports whether somebody has to be
// told that the pod is held.
func (q *Queue) enqueue(p *Pod, v requeueDecision) (news bool) {
	q.inFlight.end(p)
	switch {
	case v.strategy > queueSkip && v.hold.Reason != "":
		return q.holdPod(p, v.hold)
	case v.strategy <= queueRecheck:
		if v.gatesChecked && v.hold.Reason == "" {
			p.gate = v.gate
		}
		if p.gate != "" {
			p.addRejector(p.gate)
		}
		q.addUnschedulable(p, v.cause, p.place != Unschedulable && p.place != Gated)
		return false
	}
	p.held, p.gate, p.admittedBy = Hold{}, v.gate, v.rules.Hash
	if v.gate != "" {
		p.flushed = false
		p.addRejector(v.gate)
		q.addUnschedulable(p, v.cause, true)
		return false
	}
	now, lane := q.clock.Now(), q.subQueueOf(v.rules.Sort)
	p.backoffUntil = v.rules.backoffExpiration(p)
	if v.strategy == queueAfterBackoff && isBackingOff(p, now) {
		p.place = Backoff
		lane.backoffHeap(p).add(p)
		incomingPods.WithLabelValues("backoff", v.cause).Inc()
	} else {
		p.place = Active
		if p.initialAttempt == nil {
			p.initialAttempt = &now
		}
		lane.active.add(p)
		incomingPods.WithLabelValues("active", v.cause).Inc()
	}
	return false
}

// putDormant lays p down where only an event, or the flush, finds it. Called
// with the lock.
func (q *Queue) addUnschedulable(p *Pod, cause string, arrives bool) {
	p.place = Unschedulable
	if p.gate != "" {
		p.place = Gated
	}
	if q.unschedulable[p.profile] == nil {
		q.unschedulable[p.profile] = unschedulableIndex{}
	}
	q.unschedulable[p.profile].add(p)
	if arrives {
		incomingPods.WithLabelValues("unschedulable", cause).Inc()
	}
}

// putParked parks p for the given reason. Called with the lock. It reports
// whether the reason is news.
func (q *Queue) holdPod(p *Pod, hold Hold) (news bool) {
	q.remove(p)
	q.inFlight.end(p)
	if q.rules[p.profile] == nil {
		// Nobody listens for it: whoever comes asks about it.
		p.rules = nil
	}
	news = p.place != Held || p.held != hold || fault.HeldToldForEver
	p.place, p.held = Held, hold
	return news
}

// sortPods orders pods as they came, so that the same history wakes them in
// the same order: maps have none.
func sortByTimestamp(pods []*Pod) {
	slices.SortFunc(pods, func(a, b *Pod) int {
		return cmp.Or(a.timestamp.Compare(b.timestamp), cmp.Compare(a.pod.UID, b.pod.UID))
	})
}
