package queue

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/decision"
)

// adoptSlice is how many pods a swap asks about while nothing is popped.
const adoptSlice = 32

// Adopt makes rules those of the profile called name. Its waiting pods keep
// their attempts and backoff, and are all asked about again: the plugin that
// refused or gated them may be another now, or gone; one that gates those who
// were ready may have come; and the order may have changed.
func (q *Queue) Adopt(ctx context.Context, name string, rules *Rules) {
	var again []*Pod
	q.mu.Lock()
	for _, p := range q.pods {
		if p.profile == name && p.rests() {
			q.lift(p)
			again = append(again, p)
		}
	}
	q.rules[name] = rules
	delete(q.abandoned, name)
	q.relane()
	// Attempts under way, and pods that are being placed, hear of the swap.
	q.flights.record(event{ClusterEvent: ProfileSwap, profile: name})
	sortPods(again)
	q.mu.Unlock()
	// In slices, since nothing is popped meanwhile: the loop goes on between them.
	for slice := range slices.Chunk(again, adoptSlice) {
		q.place(ctx, ProfileSwap.CustomLabel, (*Pod).wanted, slice...)
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
	var told []*Pod
	q.mu.Lock()
	delete(q.rules, name)
	q.abandoned[name] = hold
	for _, p := range q.pods {
		if p.profile == name && p.rests() && q.putParked(p, hold) {
			told = append(told, p)
		}
	}
	q.relane()
	sortPods(told)
	pods := make([]*v1.Pod, len(told))
	for i, p := range told {
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
