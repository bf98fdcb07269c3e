package queue

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/decision"
)

// Adopt makes rules those of the profile called name. Waiting pods keep their
// attempts and backoff. Those that sat in a heap are ordered anew where the
// sort changed; the rest are asked about again, since the plugin that refused
// or gated them may be another now, or gone.
func (q *Queue) Adopt(ctx context.Context, name string, rules *Rules) {
	var again []*Pod
	q.mu.Lock()
	old := q.rules[name]
	q.rules[name] = rules
	delete(q.abandoned, name)
	q.lend(rules)
	for _, p := range q.pods {
		if p.profile != name || p.where == InFlight || p.flight != nil {
			continue
		}
		if p.heap != nil && old != nil && old.Sort == rules.Sort && p.where == Active {
			continue
		}
		again = append(again, p)
	}
	sortPods(again)
	for _, p := range again {
		p.leave()
		q.flights.begin(p)
	}
	if old != nil && old.Sort != rules.Sort {
		q.takeBack(old)
	}
	// Attempts under way, and pods that are being placed, hear of the swap.
	q.flights.record(event{ClusterEvent: ProfileSwap, profile: name})
	q.mu.Unlock()
	for _, p := range again {
		q.place(ctx, p, p.wanted(), ProfileSwap.CustomLabel)
	}
}

// wanted is how eagerly a swap tries p again: one that sat out a backoff goes
// on sitting it out.
func (p *Pod) wanted() strategy {
	if p.where == Parked || p.where == Gated || p.where == Active {
		return immediately
	}
	return afterBackoff
}

// Abandon parks all pods of the profile called name, which is served no more,
// and tells them why. A pod in flight is parked when it comes back; most do
// not, since what was begun is finished.
func (q *Queue) Abandon(name string, hold Hold) {
	var parked []*Pod
	q.mu.Lock()
	old := q.rules[name]
	delete(q.rules, name)
	q.abandoned[name] = hold
	for _, p := range q.pods {
		if p.profile == name && p.where != InFlight && p.flight == nil {
			q.putParked(p, hold)
			parked = append(parked, p)
		}
	}
	sortPods(parked)
	if old != nil {
		q.takeBack(old)
	}
	pods := make([]*v1.Pod, len(parked))
	for i, p := range parked {
		pods[i] = p.pod
	}
	q.mu.Unlock()
	for _, pod := range pods {
		q.tell(pod, hold)
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
			c.Parked++
		case InFlight:
			c.InFlight++
		}
	}
	return c
}

// Serves says whether the queue has rules for a profile called name.
func (q *Queue) Serves(name string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.rules[name] != nil
}
