package queue

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berthdev/berth/scheduler/podgroups"
)

// GroupAttempt is the attempt of a group of pods. The attempts of its members end on their
// own: one that binds a pod may end long after that of the group.
type GroupAttempt struct {
	Key podgroups.Key
	// Members are the attempts of the pods, in the order in which they are tried.
	Members []*Attempt
}

// beginGroupAttempt begins the attempts of a group that was just popped and of its members,
// which leave the group. The caller holds q.mu.
func (q *Queue) beginGroupAttempt(group *Entity) *Attempt {
	g := group.podGroup
	attempt := &GroupAttempt{Key: g.key}
	g.attempted, g.gated = sets.New[types.UID](), nil
	for _, p := range g.members {
		p.memberOf, p.place, p.holdOver, p.nodeChosen, p.bindingBegan, p.furtherRejectors = nil, InFlight, false, false, false, nil
		// The attempt is made under these. A pod that was in flight at a swap still has those before it:
		// each of its failures would be taken for one before the swap, and the pod tried again at once.
		p.rules = group.rules
		p.flushed = group.flushed
		p.attempts++
		g.attempted.Insert(p.pod.UID)
		attempt.Members = append(attempt.Members, &Attempt{
			Pod: p.pod, Count: p.attempts, Since: *p.initialAttempt, AdmittedBy: group.admittedBy, queuedPod: p, queue: q,
			unrecorded: true, // it matters where the pod names no group any more when it comes back
		})
	}
	g.members = nil
	return &Attempt{
		Group: attempt, Count: group.attempts, Since: *group.initialAttempt, AdmittedBy: group.admittedBy, queuedPod: group, queue: q,
	}
}

// returnGroup ends the attempt of a group that did not take place, and those of its members.
func (a *Attempt) returnGroup(ctx context.Context) {
	q, group := a.queue, a.queuedPod
	var left []*Entity
	q.mu.Lock()
	group.attempts--
	for _, member := range a.Group.Members {
		p := member.queuedPod
		if p.gone {
			continue
		}
		p.attempts--
		if key, _ := podgroups.KeyOf(p.pod); key != group.podGroup.key {
			q.inFlight.begin(p)
			p.rules = nil
			left = append(left, p)
			continue
		}
		p.place, p.memberOf = Grouped, group
		group.podGroup.arrived = append(group.podGroup.arrived, p)
	}
	q.mu.Unlock()
	q.requeueGroup(ctx, group, ProfileSwap.CustomLabel, queueImmediately)
	q.requeueAll(ctx, ProfileSwap.CustomLabel, constantStrategy(queueImmediately), left...)
}

// GroupResult is how the attempt of a group ended.
type GroupResult int

// The results.
const (
	// GroupScheduled: the group's pods go to their nodes, or enough of them.
	GroupScheduled GroupResult = iota
	// GroupUnschedulable: a plugin refused the group.
	GroupUnschedulable
	// GroupFailed: something failed, which says nothing about the group.
	GroupFailed
)

// FinishGroup ends the attempt of a group. The pods that came, or came back, meanwhile wait
// as the group now: active at once if the group was scheduled and no Binding of its pods has
// failed, else after a backoff. Without any, the queue forgets the group.
//
// Source: AddAttemptedPodGroupIfNeeded of k8s.io/kubernetes/pkg/scheduler/backend/queue.
func (a *Attempt) FinishGroup(ctx context.Context, result GroupResult) {
	q, group := a.queue, a.queuedPod
	q.mu.Lock()
	g := group.podGroup
	strategy, keepsTimestamp := queueAfterBackoff, false
	switch result {
	case GroupScheduled:
		strategy = queueImmediately
		// Pods that were refused are tried again at once, before others: their group can
		// preempt for them.
		keepsTimestamp = slices.ContainsFunc(g.arrived, func(p *Entity) bool { return g.attempted.Has(p.pod.UID) })
		group.unschedulableCount, group.consecutiveErrors = 0, 0
		// Pods whose Bindings failed already back off, as those whose Bindings fail later.
		for _, p := range g.arrived {
			if g.attempted.Has(p.pod.UID) && p.bindingBegan {
				strategy, keepsTimestamp = queueAfterBackoff, false
				group.unschedulableCount = max(group.unschedulableCount, p.unschedulableCount)
				group.consecutiveErrors = max(group.consecutiveErrors, p.consecutiveErrors)
			}
		}
	case GroupUnschedulable:
		group.unschedulableCount++
		group.consecutiveErrors = 0
	default:
		group.consecutiveErrors++
	}
	if !keepsTimestamp {
		group.timestamp = q.clock.Now()
	}
	group.flushed, group.backoffUntil = false, time.Time{}
	q.mu.Unlock()
	q.requeueGroup(ctx, group, "ScheduleAttemptFailure", strategy)
}

// requeueGroup makes the pods that arrived the members of a group whose attempt has ended,
// and requeues it.
func (q *Queue) requeueGroup(ctx context.Context, group *Entity, cause string, strategy queueingStrategy) {
	q.mu.Lock()
	g := group.podGroup
	arrived := g.arrived
	g.arrived, g.attempted = nil, nil
	group.place = ""
	if len(arrived) == 0 {
		q.deleteGroup(group)
		q.mu.Unlock()
		return
	}
	for _, p := range arrived {
		q.addMember(group, p)
	}
	g.attemptSize = len(g.members)
	if g.startsAnew {
		group.startAnew()
		strategy = queueImmediately
	}
	q.setFirstMember(group)
	q.inFlight.begin(group)
	q.mu.Unlock()
	q.requeueAll(ctx, cause, constantStrategy(strategy), group)
}
