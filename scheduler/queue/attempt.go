package queue

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berthdev/berth/scheduler/fault"
)

// Attempt is one try of a pod. It ends exactly once: Done, Refused or Failed.
type Attempt struct {
	// Pod is the pod as it was when the attempt began.
	Pod *v1.Pod
	// Count says the how-manieth attempt of the pod this is, from 1.
	Count int
	// Since is when the pod first became active.
	Since time.Time
	// Admitted is the Hash of the rules that let the pod into the queue.
	AdmittedBy string

	queuedPod *Pod
	queue     *Queue
}

// begin makes p's attempt. Called with the lock; p was just taken from a heap.
func (q *Queue) beginAttempt(p *Pod) *Attempt {
	q.applyRulesIfUnaffected(p)
	p.place = InFlight
	p.attempts++
	p.nodeChosen, p.furtherRejectors = false, nil
	q.inFlight.begin(p)
	return &Attempt{Pod: p.pod, Count: p.attempts, Since: *p.initialAttempt, AdmittedBy: p.admittedBy, queuedPod: p, queue: q}
}

// catchUp judges p, which a swap has not come to yet, by the rules that its
// profile has now. What they might keep from being tried is left as it is: the
// loop sees who let it in, and gives it back. Called with the lock.
func (q *Queue) applyRulesIfUnaffected(p *Pod) {
	rules := q.rules[p.profile]
	if rules == nil || p.rules == rules {
		return
	}
	if rules.diff(p.rules).strategyFor(p) == queueSkip || fault.AdmittedUnasked {
		p.rules, p.admittedBy = rules, rules.Hash
	}
}

// Chose notes that a node was chosen for the pod: what refuses it from here on
// might not do so on another one.
func (a *Attempt) SetNodeChosen() {
	a.queue.mu.Lock()
	defer a.queue.mu.Unlock()
	a.queuedPod.nodeChosen = true
}

// StillRefused notes plugins that did not refuse the pod, but would if room was
// made for it. No event of theirs wakes it; a swap that changes them does.
func (a *Attempt) SetFurtherRejectors(plugins sets.Set[string]) {
	a.queue.mu.Lock()
	defer a.queue.mu.Unlock()
	a.queuedPod.furtherRejectors = plugins
}

// Deaf stops keeping the cluster's events for the pod: from here on only an
// error can bring it back, and errors need no event.
func (a *Attempt) StopRecordingEvents() {
	a.queue.mu.Lock()
	defer a.queue.mu.Unlock()
	a.queue.inFlight.end(a.queuedPod)
}

// Done ends the attempt of a pod that is bound, or that is nobody's business
// any more.
func (a *Attempt) Done() {
	a.queue.mu.Lock()
	defer a.queue.mu.Unlock()
	a.queue.inFlight.end(a.queuedPod)
	if !a.queuedPod.gone {
		a.queue.deletePod(a.queuedPod)
	}
}

// Return ends an attempt that did not take place, because the profile was
// swapped, paused or deleted after the pod was popped: the pod goes back as it
// was, and is asked about again.
func (a *Attempt) Return(ctx context.Context) {
	q, p := a.queue, a.queuedPod
	q.mu.Lock()
	p.attempts--
	q.mu.Unlock()
	q.requeueAll(ctx, ProfileSwap.CustomLabel, constantStrategy(queueImmediately), p)
}

// Flushed says whether the flush, rather than an event, woke the pod.
func (a *Attempt) Flushed() bool { return a.queuedPod.flushed }

// Refused ends an attempt with a verdict: rejectors said that the pod does not
// fit, pending that it has to wait for them. Events that came during the
// attempt may wake it at once. A refusal that names no plugin (there are no
// nodes) counts as an error, as upstream: nobody would wake the pod.
func (a *Attempt) Refused(ctx context.Context, rejectors, pending sets.Set[string]) {
	a.finish(ctx, rejectors, pending)
}

// Failed ends an attempt that reached no verdict: the pod is tried again after
// a backoff of its own.
func (a *Attempt) Failed(ctx context.Context) { a.finish(ctx, nil, nil) }

func (a *Attempt) finish(ctx context.Context, rejectors, pending sets.Set[string]) {
	q, p := a.queue, a.queuedPod
	q.mu.Lock()
	if p.gone {
		q.mu.Unlock()
		return
	}
	want := queueSkip
	if len(rejectors) == 0 && len(pending) == 0 {
		p.consecutiveErrors++
		want = queueAfterBackoff
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
	q.mu.Unlock()
	q.requeueAll(ctx, "ScheduleAttemptFailure", constantStrategy(want), p)
}

func cloneOrEmpty(s sets.Set[string]) sets.Set[string] {
	if s == nil {
		return sets.New[string]()
	}
	return s.Clone()
}

// Current returns the newest version of the attempt's pod, and false when the
// pod was deleted or assigned meanwhile.
func (a *Attempt) Current() (*v1.Pod, bool) {
	a.queue.mu.Lock()
	defer a.queue.mu.Unlock()
	return a.queuedPod.pod, !a.queuedPod.gone
}
