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
	// ConditionStale says that the pod's PodScheduled condition gives another reason.
	ConditionStale bool
}

// HoldsChanged returns a channel that holds one value after a hold or a gate changed.
// Its reader drains it and then calls TakeHoldChanges: the channel carries no data.
func (q *Queue) HoldsChanged() <-chan struct{} { return q.holdsChanged }

// TakeHoldChanges returns the pods that are held or gated now and were not in an earlier
// result with the same reason, the oldest first. The first call returns all held and
// gated pods.
func (q *Queue) TakeHoldChanges() []HoldChange {
	q.mu.Lock()
	defer q.mu.Unlock()
	pods := slices.Collect(maps.Keys(q.holdChanges))
	sortByTimestamp(pods)
	var changes []HoldChange
	for _, p := range pods {
		switch stale := q.holdChanges[p]; {
		case p.place == Held && p.held.Reason != "":
			changes = append(changes, HoldChange{Pod: p.pod, Hold: p.held, ConditionStale: stale})
		case p.place == Gated:
			changes = append(changes, HoldChange{Pod: p.pod, Gate: p.gate, ConditionStale: stale})
		}
	}
	clear(q.holdChanges)
	return changes
}

// markHoldChange makes p a part of the next TakeHoldChanges, if p is held or gated then.
// The caller holds q.mu.
func (q *Queue) markHoldChange(p *Pod, conditionStale bool) {
	q.holdChanges[p] = q.holdChanges[p] || conditionStale
	framework.Notify(q.holdsChanged)
}

// markHeldAndGated calls markHoldChange for the held and gated pods of a profile.
func (q *Queue) markHeldAndGated(profile string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range q.pods {
		if p.profile == profile && (p.place == Held || p.place == Gated) {
			q.markHoldChange(p, false)
		}
	}
}

// HoldOf returns why the pod with this UID is held, and false when it is not.
func (q *Queue) HoldOf(uid types.UID) (Hold, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p, ok := q.pods[uid]
	if !ok || p.place != Held || p.held.Reason == "" {
		return Hold{}, false
	}
	return p.held, true
}
