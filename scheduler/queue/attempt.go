package queue

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Attempt is one scheduling attempt of a pod, or of a group of pods. That of a pod ends
// exactly once, by Done, Return, Refused or Failed; that of a group by Return or FinishGroup.
type Attempt struct {
	// Pod is the pod as it was when the attempt began; nil for a group.
	Pod *v1.Pod
	// Group is what the attempt of a group has; nil for a pod.
	Group *GroupAttempt
	// Count is the number of the pod's attempts so far, this one included.
	Count int
	// Since is when the pod first became active.
	Since time.Time
	// AdmittedBy is the Hash of the rules whose holds and gates the pod passed last.
	AdmittedBy string

	queuedPod *Entity
	queue     *Queue
	// ended says that the attempt has ended, unrecorded that it recorded no events before its
	// end, as that of a pod in a group. queue.mu guards both.
	ended, unrecorded bool
}

// beginAttempt begins the attempt of p, which was just popped from a heap. The
// caller holds q.mu.
func (q *Queue) beginAttempt(p *Entity) *Attempt {
	q.applyRulesIfUnaffected(p)
	p.place = InFlight
	p.attempts++
	if p.podGroup != nil {
		return q.beginGroupAttempt(p)
	}
	p.nodeChosen, p.furtherRejectors = false, nil
	q.inFlight.begin(p)
	return &Attempt{Pod: p.pod, Count: p.attempts, Since: *p.initialAttempt, AdmittedBy: p.admittedBy, queuedPod: p, queue: q}
}

// applyRulesIfUnaffected marks p as evaluated under the current rules of its
// profile if the swap does not concern it. If the swap does, p keeps the old
// rules: the loop compares Attempt.AdmittedBy with the running profile and calls
// Return. The caller holds q.mu.
func (q *Queue) applyRulesIfUnaffected(p *Entity) {
	rules := q.rules[p.profile]
	if rules == nil || p.rules == rules {
		return
	}
	if rules.diff(p.rules).strategyFor(p) == queueSkip {
		p.rules, p.admittedBy = rules, rules.Hash
	}
}

// SetNodeChosen records that the scheduling cycle chose a node: a plugin that
// refuses the pod after that may accept it on another node.
func (a *Attempt) SetNodeChosen() {
	a.queue.mu.Lock()
	defer a.queue.mu.Unlock()
	a.queuedPod.nodeChosen = true
}

// SetBindingBegan records that the binding cycle of a pod of a group begins.
func (a *Attempt) SetBindingBegan() {
	a.queue.mu.Lock()
	defer a.queue.mu.Unlock()
	a.queuedPod.bindingBegan = true
}

// SetFurtherRejectors records plugins that did not refuse the pod, but would if
// preemption made room for it. Their events do not wake the pod; a swap that
// changes one of them does.
func (a *Attempt) SetFurtherRejectors(plugins sets.Set[string]) {
	a.queue.mu.Lock()
	defer a.queue.mu.Unlock()
	a.queuedPod.furtherRejectors = plugins
}

// StopRecordingEvents stops recording cluster events for the pod: the attempt may take very
// long, or only an error can bring the pod back. A pod that comes back is tried again after
// its backoff, as if one of the events had woken it. It does nothing after the attempt ended.
func (a *Attempt) StopRecordingEvents() {
	a.queue.mu.Lock()
	defer a.queue.mu.Unlock()
	if a.ended {
		return
	}
	a.unrecorded = true
	a.queue.inFlight.end(a.queuedPod)
}

// Done ends the attempt of a pod that was bound or does not need scheduling any
// more. The queue forgets the pod.
func (a *Attempt) Done() {
	a.queue.mu.Lock()
	defer a.queue.mu.Unlock()
	a.ended = true
	a.queue.inFlight.end(a.queuedPod)
	if !a.queuedPod.gone {
		a.queue.deletePod(a.queuedPod)
	}
}

// Return ends an attempt that did not take place, because the profile was
// swapped, paused or deleted after the pod was popped. The attempt does not count
// and the pod is requeued, with its hold and gates checked again.
func (a *Attempt) Return(ctx context.Context) {
	q, p := a.queue, a.queuedPod
	if a.Group != nil {
		a.returnGroup(ctx)
		return
	}
	q.mu.Lock()
	p.attempts--
	a.ended = true
	q.mu.Unlock()
	q.requeueAll(ctx, ProfileSwap.CustomLabel, constantStrategy(queueImmediately), p)
}

// Flushed reports whether the periodic flush woke the pod, rather than an event.
func (a *Attempt) Flushed() bool { return a.queuedPod.flushed }

// Refused ends an attempt in which the plugins in rejectors found the pod
// unschedulable and those in pending returned Pending. Events recorded during the
// attempt may wake the pod at once. A refusal that names no plugin, as in a
// cluster without nodes, counts as an error as in kube-scheduler: no event would
// wake the pod.
func (a *Attempt) Refused(ctx context.Context, rejectors, pending sets.Set[string]) {
	a.finish(ctx, rejectors, pending)
}

// Failed ends an attempt with an error. The pod is retried after the backoff for
// errors.
func (a *Attempt) Failed(ctx context.Context) { a.finish(ctx, nil, nil) }

func (a *Attempt) finish(ctx context.Context, rejectors, pending sets.Set[string]) {
	q, p := a.queue, a.queuedPod
	q.mu.Lock()
	a.ended = true
	if p.gone {
		q.mu.Unlock()
		return
	}
	strategy := queueSkip
	if a.unrecorded {
		strategy = queueAfterBackoff
	}
	if len(rejectors) == 0 && len(pending) == 0 {
		p.consecutiveErrors++
		strategy = queueAfterBackoff
	} else {
		p.unschedulableCount++
		p.consecutiveErrors = 0
	}
	p.rejectors, p.pending = cloneOrEmpty(rejectors), cloneOrEmpty(pending)
	p.timestamp = q.clock.Now()
	p.flushed = false
	p.backoffUntil = time.Time{}
	if p.marker == nil {
		q.inFlight.begin(p)
	}
	if key, grouped := q.rules[p.profile].groupOf(p.pod); grouped {
		_, waits := q.podGroups[key]
		group, strategy := q.joinGroup(p, key)
		if !waits {
			// A group of failed pods: at once they might fail again, without end.
			group.unschedulableCount, group.consecutiveErrors, group.podGroup.attemptSize = p.unschedulableCount, p.consecutiveErrors, 1
			strategy = queueAfterBackoff
		}
		var d detachedEntities
		d.add(group, strategy)
		q.mu.Unlock()
		q.requeueDetached(ctx, "ScheduleAttemptFailure", d)
		return
	}
	q.mu.Unlock()
	q.requeueAll(ctx, "ScheduleAttemptFailure", constantStrategy(strategy), p)
}

func cloneOrEmpty(s sets.Set[string]) sets.Set[string] {
	if s == nil {
		return sets.New[string]()
	}
	return s.Clone()
}

// Current returns the newest known version of the pod, and false when the pod
// was deleted or assigned during the attempt.
func (a *Attempt) Current() (*v1.Pod, bool) {
	a.queue.mu.Lock()
	defer a.queue.mu.Unlock()
	return a.queuedPod.pod, !a.queuedPod.gone
}
