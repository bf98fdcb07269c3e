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
	heldAtOnce    = 50
	heldPerSecond = 50
)

// heldLine is the line of the pods that are to be told that they are held.
// Those whose status says Unschedulable go first: autoscalers buy nodes for
// that word.
type heldLine struct {
	clock clock.WithDelayedExecution
	// tell writes the news into the pod's status, unless they are stale.
	tell func(pod *v1.Pod, hold queue.Hold)

	mu           sync.Mutex
	budget       float64
	at           time.Time // when budget was true
	urgent, rest []types.UID
	news         map[types.UID]held
	// waits says that the line moves on by itself.
	waits bool
}

type held struct {
	pod  *v1.Pod
	hold queue.Hold
}

func newHeldLine(c clock.WithDelayedExecution, tell func(*v1.Pod, queue.Hold)) *heldLine {
	return &heldLine{clock: c, tell: tell, budget: heldAtOnce, at: c.Now(), news: map[types.UID]held{}}
}

// put tells the pod, now or when its turn comes; newer news replace older.
func (l *heldLine) put(pod *v1.Pod, hold queue.Hold) {
	l.mu.Lock()
	if _, queued := l.news[pod.UID]; !queued {
		if saysUnschedulable(pod) {
			l.urgent = append(l.urgent, pod.UID)
		} else {
			l.rest = append(l.rest, pod.UID)
		}
	}
	l.news[pod.UID] = held{pod, hold}
	waits := l.waits
	l.mu.Unlock()
	if !waits {
		l.move()
	}
}

// move tells as many as the budget allows, and comes back for the others.
func (l *heldLine) move() {
	l.mu.Lock()
	now := l.clock.Now()
	l.budget = min(heldAtOnce, l.budget+now.Sub(l.at).Seconds()*heldPerSecond)
	l.at = now
	var turn []held
	for ; l.budget >= 1 && len(l.news) > 0; l.budget-- {
		turn = append(turn, l.take())
	}
	l.waits = len(l.news) > 0
	if l.waits {
		l.clock.AfterFunc(time.Second/heldPerSecond, l.move)
	}
	l.mu.Unlock()
	for _, h := range turn {
		l.tell(h.pod, h.hold)
	}
}

// take takes the first of the line. Called with the lock; there is one.
func (l *heldLine) take() held {
	from := &l.rest
	if len(l.urgent) > 0 {
		from = &l.urgent
	}
	uid := (*from)[0]
	*from = (*from)[1:]
	h := l.news[uid]
	delete(l.news, uid)
	return h
}

func saysUnschedulable(pod *v1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled {
			return c.Reason == v1.PodReasonUnschedulable
		}
	}
	return false
}

// says says whether the pod's status has told the reason already.
func says(pod *v1.Pod, hold queue.Hold) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && c.Reason == hold.Reason && c.Message == hold.Message
	})
}

// writeHeld writes into a pod's status that it is held, as the queue has it by now, and
// an Event where that is new to it. What is over is not told any more; that a gate holds the pod instead is
// no hold of ours.
func (s *Scheduler) writeHeld(pod *v1.Pod, hold queue.Hold) {
	if now, is := s.queue.HoldOf(pod.UID); is {
		hold = now
	} else if hold.Reason != v1.PodReasonSchedulingGated {
		return
	}
	s.binding.Refuse(pod, hold.Reason, hold.Message, nil)
	if hold.Reason != v1.PodReasonSchedulingGated && !says(pod, hold) {
		s.options.RecorderFor(pod.Spec.SchedulerName).Eventf(pod, nil, v1.EventTypeWarning, "FailedScheduling", "Scheduling", "%s", hold.Message)
	}
}
