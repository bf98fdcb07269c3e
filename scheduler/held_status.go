package scheduler

import (
	"context"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/binding"
	"github.com/berthdev/berth/scheduler/queue"
)

// A profile that is deleted or paused holds all its pods at once. Their status is
// written within a token bucket, so that the API server has room for others.
const (
	heldStatusBurst = 50
	heldStatusQPS   = 50
)

// heldStatusQueue holds the status updates of held pods that are to be written.
// Pods whose status says Unschedulable go first, since cluster autoscalers add nodes
// for them.
type heldStatusQueue struct {
	clock  clock.WithDelayedExecution
	writer holdWriter

	mu           sync.Mutex
	tokens       float64
	refilledAt   time.Time
	urgent, rest []types.UID
	queued       sets.Set[types.UID]
	// scheduled is true while a timer is set that calls flush.
	scheduled bool
}

// holdWriter writes why a pod is held or gated now into its status, unless it is neither.
type holdWriter interface {
	writeHold(uid types.UID)
}

func newHeldStatusQueue(c clock.WithDelayedExecution, writer holdWriter) *heldStatusQueue {
	return &heldStatusQueue{clock: c, writer: writer, tokens: heldStatusBurst, refilledAt: c.Now(), queued: sets.New[types.UID]()}
}

// add has the pod's status written now, or when there is a token for it. A pod that is
// queued already is written once.
func (q *heldStatusQueue) add(pod *v1.Pod) {
	q.mu.Lock()
	if !q.queued.Has(pod.UID) {
		if hasUnschedulableReason(pod) {
			q.urgent = append(q.urgent, pod.UID)
		} else {
			q.rest = append(q.rest, pod.UID)
		}
	}
	q.queued.Insert(pod.UID)
	scheduled := q.scheduled
	q.mu.Unlock()
	if !scheduled {
		q.flush()
	}
}

// reportHolds reports the holds and gates of pods until ctx ends.
func (s *Scheduler) reportHolds(ctx context.Context) {
	for s.options.Wait(ctx, s.queue.HoldsChanged()) == nil {
		s.reportHoldChanges()
	}
}

// reportHoldChanges writes the conditions and explanations of the pods that are held or
// gated for a new reason.
func (s *Scheduler) reportHoldChanges() {
	for _, c := range s.queue.TakeHoldChanges() {
		if c.Gate != "" {
			s.explainGate(c)
		} else {
			s.explainHeld(c)
		}
		if c.ConditionStale {
			s.heldStatus.add(c.Pod)
		}
	}
}

// flush writes as many updates as there are tokens, and sets a timer for the rest.
func (q *heldStatusQueue) flush() {
	q.mu.Lock()
	now := q.clock.Now()
	q.tokens = min(heldStatusBurst, q.tokens+now.Sub(q.refilledAt).Seconds()*heldStatusQPS)
	q.refilledAt = now
	var pods []types.UID
	for ; q.tokens >= 1 && q.queued.Len() > 0; q.tokens-- {
		pods = append(pods, q.pop())
	}
	q.scheduled = q.queued.Len() > 0
	if q.scheduled {
		q.clock.AfterFunc(time.Second/heldStatusQPS, q.flush)
	}
	q.mu.Unlock()
	for _, uid := range pods {
		q.writer.writeHold(uid)
	}
}

// pop removes the first pod. The caller holds the lock, and there is one.
func (q *heldStatusQueue) pop() types.UID {
	from := &q.rest
	if len(q.urgent) > 0 {
		from = &q.urgent
	}
	uid := (*from)[0]
	*from = (*from)[1:]
	q.queued.Delete(uid)
	return uid
}

func hasUnschedulableReason(pod *v1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled {
			return c.Reason == v1.PodReasonUnschedulable
		}
	}
	return false
}

// hasHoldCondition reports whether the pod's condition already gives this hold.
func hasHoldCondition(pod *v1.Pod, hold queue.Hold) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && c.Reason == hold.Reason && c.Message == hold.Message
	})
}

// holdConditions implements holdWriter with conditions and Events.
type holdConditions struct {
	queue       *queue.Queue
	binding     *binding.Binding
	recorderFor func(profile string) events.EventRecorderLogger
}

// writeHold writes the pod's hold or gate, as the queue has it now, into its condition,
// and an Event where the condition did not say so yet. A hold or gate that is over is not
// written: an attempt may have given the pod a newer condition. A PreEnqueue plugin's gate
// is no hold, so that it gets no Event.
func (w holdConditions) writeHold(uid types.UID) {
	var held queue.HoldChange
	w.queue.IfHeldOrGated(uid, func(now queue.HoldChange) {
		hold := now.Hold
		if now.Gate != "" {
			hold = queue.Hold{Reason: v1.PodReasonSchedulingGated, Message: queue.GateMessage(now.Gate)}
		} else {
			held = now
		}
		w.binding.SetNotScheduled(now.Pod, hold.Reason, hold.Message, nil)
	})
	if pod := held.Pod; pod != nil && !hasHoldCondition(pod, held.Hold) {
		w.recorderFor(pod.Spec.SchedulerName).Eventf(pod, nil, v1.EventTypeWarning, "FailedScheduling", "Scheduling", "%s", held.Hold.Message)
	}
}
