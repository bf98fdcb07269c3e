package queue

import (
	"cmp"
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// place decides where p goes next and puts it there. p has a marker in the
// event log and sits in no heap; want is what is known so far: skip for a pod
// that only an event can wake. Plugins are asked without the lock; whatever
// happens meanwhile is heard before the pod is put down.
func (q *Queue) place(ctx context.Context, p *Pod, want strategy, cause string) {
	gate, hold, asked := "", Hold{}, false
	for {
		q.mu.Lock()
		if p.gone {
			q.flights.end(p)
			q.mu.Unlock()
			return
		}
		rules, pod, lastGate := q.rules[p.profile], p.pod, p.gate
		heard := q.flights.hear(p)
		if rules == nil {
			hold = q.abandoned[p.profile]
			q.putParked(p, hold)
			q.mu.Unlock()
			q.tell(pod, hold)
			return
		}
		if len(heard) == 0 && (want == skip || asked) {
			told := q.put(p, verdict{want, gate, hold, rules, cause})
			q.mu.Unlock()
			if told {
				q.tell(pod, hold)
			}
			return
		}
		q.mu.Unlock()

		for _, e := range heard {
			want = max(want, rules.worth(logger(ctx), p, pod, e))
		}
		if want == skip {
			continue
		}
		if hold = rules.Hold(pod); hold.Reason == "" {
			gate = rules.PreEnqueue(ctx, pod, lastGate)
		}
		asked = true
	}
}

// tell says that a pod is held. Called without the lock.
func (q *Queue) tell(pod *v1.Pod, hold Hold) {
	if q.onHold != nil && hold.Reason != "" {
		q.onHold(pod, hold)
	}
}

// verdict is what place found out about a pod.
type verdict struct {
	want  strategy
	gate  string
	hold  Hold
	rules *Rules
	cause string
}

// put puts p down. Called with the lock. It reports whether somebody has to be
// told that the pod is held.
func (q *Queue) put(p *Pod, v verdict) (held bool) {
	q.flights.end(p)
	if v.want == skip {
		p.where = Unschedulable
		if p.gate != "" {
			p.where = Gated
		}
		incoming.WithLabelValues("unschedulable", v.cause).Inc()
		return false
	}
	if v.hold.Reason != "" {
		news := p.held != v.hold
		q.putParked(p, v.hold)
		return news
	}
	p.held = Hold{}
	p.gate = v.gate
	if v.gate != "" {
		p.where, p.flushed = Gated, false
		p.rejectors.Insert(v.gate)
		incoming.WithLabelValues("unschedulable", v.cause).Inc()
		return false
	}
	p.admitted = v.rules.Generation
	now := q.clock.Now()
	lane := q.lane(v.rules.Sort)
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
	q.wake()
	return false
}

// putParked parks p for the given reason. Called with the lock.
func (q *Queue) putParked(p *Pod, hold Hold) {
	q.flights.end(p)
	p.leave()
	p.where, p.held = Parked, hold
}

// lane returns the lane of a sort that is served.
func (q *Queue) lane(sort string) *lane {
	i := slices.IndexFunc(q.lanes, func(l *lane) bool { return l.sort == sort })
	return q.lanes[i]
}

// sortPods orders pods as they came, so that the same history wakes them in
// the same order: maps have none.
func sortPods(pods []*Pod) {
	slices.SortFunc(pods, func(a, b *Pod) int {
		return cmp.Or(a.timestamp.Compare(b.timestamp), cmp.Compare(a.pod.UID, b.pod.UID))
	})
}
