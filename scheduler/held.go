package scheduler

import (
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/queue"
)

// A profile that is deleted or paused holds all its pods at once. They are
// told within a budget, which leaves the API server to others: so many at
// once, and then so many a second.
const (
	heldStatusBurst = 50
	heldStatusQPS   = 50
)

// heldLine is the line of the pods that are to be told that they are held.
// Those whose status says Unschedulable go first: autoscalers buy nodes for
// that word.
type heldStatusQueue struct {
	clock clock.WithDelayedExecution
	// tell writes the news into the pod's status, unless they are stale.
	write func(pod *v1.Pod, hold queue.Hold)

	mu           sync.Mutex
	tokens       float64
	refilledAt   time.Time // when budget was true
	urgent, rest []types.UID
	updates      map[types.UID]heldUpdate
	// waits says that the line moves on by itself.
	scheduled bool
}

type heldUpdate struct {
	pod  *v1.Pod
	hold queue.Hold
}

func newHeldStatusQueue(c clock.WithDelayedExecution, tell func(*v1.Pod, queue.Hold)) *heldStatusQueue {
	return &heldStatusQueue{clock: c, write: tell, tokens: heldStatusBurst, refilledAt: c.Now(), updates: map[types.UID]heldUpdate{}}
}

// put tells the pod, now or when its turn comes; newer news replace older.
func (l *heldStatusQueue) add(pod *v1.Pod, hold queue.Hold) {
	l.mu.Lock()
	if _, queued := l.updates[pod.UID]; !queued {
		if hasUnschedulableReason(pod) {
			l.urgent = append(l.urgent, pod.UID)
		} else {
			l.rest = append(l.rest, pod.UID)
		}
	}
	l.updates[pod.UID] = heldUpdate{pod, hold}
	waits := l.scheduled
	l.mu.Unlock()
	if !waits {
		l.flush()
	}
}

// move tells as many as the budget allows, and comes back for the others.
func (l *heldStatusQueue) flush() {
	l.mu.Lock()
	now := l.clock.Now()
	l.tokens = min(heldStatusBurst, l.tokens+now.Sub(l.refilledAt).Seconds()*heldStatusQPS)
	l.refilledAt = now
	var turn []heldUpdate
	for ; l.tokens >= 1 && len(l.updates) > 0; l.tokens-- {
		turn = append(turn, l.pop())
	}
	l.scheduled = len(l.updates) > 0
	if l.scheduled {
		l.clock.AfterFunc(time.Second/heldStatusQPS, l.flush)
	}
	l.mu.Unlock()
	for _, h := range turn {
		l.write(h.pod, h.hold)
	}
}

// take takes the first of the line. Called with the lock; there is one.
func (l *heldStatusQueue) pop() heldUpdate {
	from := &l.rest
	if len(l.urgent) > 0 {
		from = &l.urgent
	}
	uid := (*from)[0]
	*from = (*from)[1:]
	h := l.updates[uid]
	delete(l.updates, uid)
	return h
}

func hasUnschedulableReason(pod *v1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled {
			return c.Reason == v1.PodReasonUnschedulable
		}
	}
	return false
}

// says says whether the pod's status has told the reason already.
func hasHoldCondition(pod *v1.Pod, hold queue.Hold) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && c.Reason == hold.Reason && c.Message == hold.Message
	})
}

// writeHeld writes into a pod's status that it is held, as the queue has it by now, and
// an Event where that is new to it. What is over is not told any more; that a gate holds the pod instead is
// no hold of ours.
func (s *Scheduler) writeHeldStatus(pod *v1.Pod, hold queue.Hold) {
	if now, is := s.queue.HoldOf(pod.UID); is {
		hold = now
	} else if hold.Reason != v1.PodReasonSchedulingGated {
		return
	}
	s.binding.SetNotScheduled(pod, hold.Reason, hold.Message, nil)
	if hold.Reason != v1.PodReasonSchedulingGated && !hasHoldCondition(pod, hold) {
		s.options.RecorderFor(pod.Spec.SchedulerName).Eventf(pod, nil, v1.EventTypeWarning, "FailedScheduling", "Scheduling", "%s", hold.Message)
	}
}
