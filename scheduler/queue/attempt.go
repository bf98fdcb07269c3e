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
	Admitted string

	entry *Pod
	queue *Queue
}

// begin makes p's attempt. Called with the lock; p was just taken from a heap.
func (q *Queue) begin(p *Pod) *Attempt {
	q.catchUp(p)
	p.where = InFlight
	p.attempts++
	p.chosen, p.besides = false, nil
	q.flights.begin(p)
	return &Attempt{Pod: p.pod, Count: p.attempts, Since: *p.initialAttempt, Admitted: p.admitted, entry: p, queue: q}
}

// catchUp judges p, which a swap has not come to yet, by the rules that its
// profile has now. What they might keep from being tried is left as it is: the
// loop sees who let it in, and gives it back. Called with the lock.
func (q *Queue) catchUp(p *Pod) {
	rules := q.rules[p.profile]
	if rules == nil || p.by == rules {
		return
	}
	if rules.since(p.by).means(p) == skip || fault.AdmittedUnasked {
		p.by, p.admitted = rules, rules.Hash
	}
}

// Chose notes that a node was chosen for the pod: what refuses it from here on
// might not do so on another one.
func (a *Attempt) Chose() {
	a.queue.mu.Lock()
	defer a.queue.mu.Unlock()
	a.entry.chosen = true
}

// StillRefused notes plugins that did not refuse the pod, but would if room was
// made for it. No event of theirs wakes it; a swap that changes them does.
func (a *Attempt) StillRefused(plugins sets.Set[string]) {
	a.queue.mu.Lock()
	defer a.queue.mu.Unlock()
	a.entry.besides = plugins
}

// Deaf stops keeping the cluster's events for the pod: from here on only an
// error can bring it back, and errors need no event.
func (a *Attempt) Deaf() {
	a.queue.mu.Lock()
	defer a.queue.mu.Unlock()
	a.queue.flights.end(a.entry)
}

// Done ends the attempt of a pod that is bound, or that is nobody's business
// any more.
func (a *Attempt) Done() {
	a.queue.mu.Lock()
	defer a.queue.mu.Unlock()
	a.queue.flights.end(a.entry)
	if !a.entry.gone {
		a.queue.forget(a.entry)
	}
}

// Return ends an attempt that did not take place, because the profile was
// swapped, paused or deleted after the pod was popped: the pod goes back as it
// was, and is asked about again.
func (a *Attempt) Return(ctx context.Context) {
	q, p := a.queue, a.entry
	q.mu.Lock()
	p.attempts--
	q.mu.Unlock()
	q.place(ctx, ProfileSwap.CustomLabel, always(immediately), p)
}

// Flushed says whether the flush, rather than an event, woke the pod.
func (a *Attempt) Flushed() bool { return a.entry.flushed }

// Refused ends an attempt with a verdict: rejectors said that the pod does not
// fit, pending that it has to wait for them. Events that came during the
// attempt may wake it at once. A refusal that names no plugin (there are no
// nodes) counts as an error, as upstream: nobody would wake the pod.
func (a *Attempt) Refused(ctx context.Context, rejectors, pending sets.Set[string]) {
	a.end(ctx, rejectors, pending)
}

// Failed ends an attempt that reached no verdict: the pod is tried again after
// a backoff of its own.
func (a *Attempt) Failed(ctx context.Context) { a.end(ctx, nil, nil) }

func (a *Attempt) end(ctx context.Context, rejectors, pending sets.Set[string]) {
	q, p := a.queue, a.entry
	q.mu.Lock()
	if p.gone {
		q.mu.Unlock()
		return
	}
	want := skip
	if len(rejectors) == 0 && len(pending) == 0 {
		p.consecutiveErrors++
		want = afterBackoff
	} else {
		p.unschedulableCount++
		p.consecutiveErrors = 0
	}
	p.rejectors, p.pending = nonNil(rejectors), nonNil(pending)
	p.timestamp = q.clock.Now()
	p.flushed = false
	p.backoffUntil = time.Time{}
	if p.flight == nil {
		q.flights.begin(p)
	}
	q.mu.Unlock()
	q.place(ctx, "ScheduleAttemptFailure", always(want), p)
}

func nonNil(s sets.Set[string]) sets.Set[string] {
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
	return a.entry.pod, !a.entry.gone
}
