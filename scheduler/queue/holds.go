package queue

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/scheduler/framework"
)

// HoldChange is a pod that is held, or gated, for a new reason.
type HoldChange struct {
	Pod *v1.Pod
	// Hold is why the pod is held; the zero Hold for a gated pod.
	Hold Hold
	// Gate is the PreEnqueue plugin that gates the pod; empty for a held pod.
	Gate string
	// GatedMember is the pod that the plugin gates, where the pod waits with a group: one pod
	// that is gated gates all of them. nil for a pod on its own.
	GatedMember *v1.Pod
	// ConditionStale says that the pod's PodScheduled condition gives another reason.
	ConditionStale bool
}

// HoldsChanged returns a channel that holds one value after a hold or a gate changed.
// Its reader drains it and then calls TakeHoldChanges: the channel carries no data.
func (q *Queue) HoldsChanged() <-chan struct{} { return q.holdsChanged }

// TakeHoldChanges returns the pods that are held or gated now and were not in an earlier
// result with the same reason, the oldest first. The first call returns all held and
// gated pods. The gated pod of a group is also in the result after a pod joined or left the
// group.
func (q *Queue) TakeHoldChanges() []HoldChange {
	q.mu.Lock()
	defer q.mu.Unlock()
	pods := slices.Collect(maps.Keys(q.holdChanges))
	sortByTimestamp(pods)
	var changes []HoldChange
	for _, p := range pods {
		if change, ok := p.holdChange(); ok {
			change.ConditionStale = q.holdChanges[p]
			changes = append(changes, change)
		}
	}
	clear(q.holdChanges)
	return changes
}

// IfUnchanged calls do if the pod of a change is still held or gated as it says. Meanwhile no
// attempt of the pod begins, and do must not call the queue.
func (q *Queue) IfUnchanged(c HoldChange, do func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now, ok := q.pods[c.Pod.UID].holdChange(); ok && now.Hold == c.Hold && now.Gate == c.Gate {
		do()
	}
}

// holdChange returns why a pod is held or gated now; ok is false where it is neither, and for a
// pod that is not in the queue. The caller holds q.mu.
func (p *Entity) holdChange() (c HoldChange, ok bool) {
	if p == nil {
		return c, false
	}
	switch waiting := p.waiting(); {
	case waiting.place == Held && p.held.Reason != "":
		return HoldChange{Pod: p.pod, Hold: p.held}, true
	case waiting.place == Gated:
		return HoldChange{Pod: p.pod, Gate: waiting.gate, GatedMember: waiting.gatedMember()}, true
	}
	return c, false
}

// markHoldChange makes the pods of p a part of the next TakeHoldChanges, if p is held or
// gated then. The caller holds q.mu.
func (q *Queue) markHoldChange(p *Entity, conditionStale bool) {
	for pod := range p.pods() {
		q.holdChanges[pod] = q.holdChanges[pod] || conditionStale
	}
	framework.Notify(q.holdsChanged)
}

// markGateAfterHold is markHoldChange for a pod that is gated, or whose group is: its condition is
// stale if it still shows a hold. The caller holds q.mu.
func (q *Queue) markGateAfterHold(p *Entity) {
	q.markHoldChange(p, p.holdOver)
	p.holdOver = false
}

// markSizeChange makes the gated pod of a group, which explains how many pods the group has, a
// part of the next TakeHoldChanges. The caller holds q.mu.
func (q *Queue) markSizeChange(g *podGroup) {
	if g.gated != nil {
		q.markHoldChange(g.gated, false)
	}
}

// markHeldAndGated calls markHoldChange for the held and gated pods of a profile.
func (q *Queue) markHeldAndGated(profile string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range q.pods {
		if place := p.waiting().place; p.profile == profile && (place == Held || place == Gated) {
			q.markHoldChange(p, false)
		}
	}
}

// IfHeldOrGated calls do with why the pod with this UID is held or gated now, unless it is
// neither. Meanwhile no attempt of the pod begins, and do must not call the queue.
func (q *Queue) IfHeldOrGated(uid types.UID, do func(now HoldChange)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now, ok := q.pods[uid].holdChange(); ok {
		do(now)
	}
}
