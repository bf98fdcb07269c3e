// Package explainer writes SchedulingDecisions, which explain why pods wait and where
// they were bound: it takes tasks from the explanation queue and carries them out
// within a rate limit.
package explainer

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	corelisters "k8s.io/client-go/listers/core/v1"
	restclient "k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/berthdev/berth/scheduler/explain"
)

const (
	// writeInterval is the least time between two writes: twenty a second at most.
	writeInterval = 50 * time.Millisecond
	// yieldFactor is how many times longer the interval is while pods are being bound.
	// On two cores, a stream of pods lost 5 % of its rate beside twenty writes a
	// second, and 3 % beside a fifth of them. Deletions of outdated objects do not
	// yield.
	yieldFactor = 10
	// unservedRetryInterval is the time between requests to an API server that does not
	// serve SchedulingDecisions.
	unservedRetryInterval = 10 * time.Second
	// maxBackoff bounds the time between requests to an API server that fails.
	maxBackoff = 30 * time.Second
	// objectRetryInterval is the time after which an object is written again that could
	// not be written for a reason of its own. Other objects are written meanwhile.
	objectRetryInterval = time.Minute
	// errorLogInterval is how often errors of one kind are logged.
	errorLogInterval = time.Minute
)

// explainer takes tasks from the queue and carries them out one at a time, so that it
// sends less to a slow API server.
type explainer struct {
	queue     *explain.Queue
	decisions *decisionClient
	pods      corelisters.PodLister
	synced    func() bool
	clock     clock.Clock
	wait      WaitFunc
	limiter   *writeLimiter
	// finalWrites is Options.FinalWrites.
	finalWrites func() (context.Context, context.CancelFunc)
	// failures counts the failures since the last success.
	failures int
	// nextResync is when the existing objects are listed again.
	nextResync time.Time
	errorLog   errorLogLimiter
}

// Options are the dependencies of an explainer. All are required but Wait,
// BindsInProgress and FinalWrites.
type Options struct {
	// Queue holds the explanations to write.
	Queue *explain.Queue
	// Client writes them, see NewClient.
	Client restclient.Interface
	// Pods lists every pod that has not terminated, once PodsSynced returns true.
	Pods       corelisters.PodLister
	PodsSynced func() bool
	// Clock paces the writes.
	Clock clock.Clock
	// Wait is how the explainer waits; nil means WaitWithTimers of Clock.
	Wait WaitFunc
	// BindsInProgress reports whether pods are being bound. Writes slow down meanwhile.
	// May be nil.
	BindsInProgress func() bool
	// FinalWrites waits until no pod is scheduled any more, and returns the context of
	// the writes that follow; nil when nothing is written after the manager ends.
	FinalWrites func() (context.Context, context.CancelFunc)
}

// New returns the explainer, which a manager runs while it leads.
func New(o Options) manager.Runnable {
	if o.Wait == nil {
		o.Wait = WaitWithTimers(o.Clock)
	}
	limiter := &writeLimiter{clock: o.Clock, wait: o.Wait, bindsInProgress: o.BindsInProgress}
	return &explainer{
		queue: o.Queue, decisions: &decisionClient{rest: o.Client, limiter: limiter},
		pods: o.Pods, synced: o.PodsSynced, clock: o.Clock, wait: o.Wait, limiter: limiter, errorLog: errorLogLimiter{clock: o.Clock}, finalWrites: o.FinalWrites,
	}
}

// NeedLeaderElection returns true: only the leader writes.
func (x *explainer) NeedLeaderElection() bool { return true }

// Start loads the existing objects, and then writes until ctx ends, and after that what
// is due once scheduling has ended. Meanwhile it lists the existing objects again and again.
func (x *explainer) Start(ctx context.Context) error {
	logger := log.FromContext(ctx).WithName("explainer")
	for {
		pause, ok := x.loadExisting(ctx, logger)
		if ok {
			break
		}
		if !x.wait(ctx, pause, nil) {
			return nil
		}
	}
	for {
		pause, wake := x.resyncOrRun(ctx, logger)
		if !x.wait(ctx, pause, wake) || ctx.Err() != nil {
			x.writeRemaining(logger)
			return nil
		}
	}
}

// resyncOrRun is runOnce, after the existing objects were listed if that was due.
func (x *explainer) resyncOrRun(ctx context.Context, logger logr.Logger) (time.Duration, <-chan struct{}) {
	due, ok := x.resync(ctx, logger)
	if !ok {
		return due, nil
	}
	pause, wake := x.runOnce(ctx, logger)
	if wake != nil {
		pause = min(pause, due)
	}
	return pause, wake
}

// writeRemaining writes what is due after scheduling ended, within the rate limit,
// until nothing is due or the context ends. The condition PodScheduled of the other
// pods already gives a reason.
func (x *explainer) writeRemaining(logger logr.Logger) {
	if x.finalWrites == nil {
		return
	}
	ctx, cancel := x.finalWrites()
	defer cancel()
	for {
		pause, wake := x.runOnce(ctx, logger)
		done := wake != nil && x.limiter.yieldDelay() == 0
		if done || ctx.Err() != nil || !x.wait(ctx, pause, nil) {
			return
		}
	}
}

// idleInterval is how long runOnce may wait when only the queue's channel can announce
// work.
const idleInterval = time.Hour

// runOnce carries out at most one task. It returns how long to wait before the next
// call, and a channel that ends the wait early; nil for none.
func (x *explainer) runOnce(ctx context.Context, logger logr.Logger) (time.Duration, <-chan struct{}) {
	// The task is taken only when it may be written: the choice then knows all that waits.
	if x.limiter.await(ctx) != nil {
		return 0, nil
	}
	take, yields := x.queue.Take, x.limiter.yieldDelay()
	if yields > 0 {
		take = x.queue.TakeOutdated
	}
	task, next, ok := take()
	pause := idleInterval
	switch {
	case ok:
		x.limiter.outdated = task.Outdated
		return x.process(ctx, logger, task), nil
	case !next.IsZero():
		pause = next.Sub(x.clock.Now())
	}
	if yields > 0 {
		pause = min(pause, yields)
	}
	return pause, x.queue.Changed()
}

// WaitFunc returns after d, or when wake receives, which may be nil; false when ctx ended.
type WaitFunc func(ctx context.Context, d time.Duration, wake <-chan struct{}) bool

// WaitWithTimers waits with timers of a clock.
func WaitWithTimers(c clock.Clock) WaitFunc {
	return func(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
		timer := c.NewTimer(max(d, 0))
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return false
		case <-wake:
		case <-timer.C():
		}
		return true
	}
}

// writeLimiter spaces writes.
type writeLimiter struct {
	clock clock.Clock
	wait  WaitFunc
	// bindsInProgress reports whether pods are being bound, to which writes yield; may
	// be nil.
	bindsInProgress func() bool
	// next is when the next write may be made, and nextYielding the next one that
	// yields.
	next, nextYielding time.Time
	// outdated says that the next write does not yield: it concerns an object that a
	// bind has made untrue.
	outdated bool
}

// yieldDelay returns for how long only outdated objects may be written.
func (l *writeLimiter) yieldDelay() time.Duration { return max(l.nextYielding.Sub(l.clock.Now()), 0) }

// await returns when a write may be made, or with the error of ctx.
func (l *writeLimiter) await(ctx context.Context) error {
	d := l.next.Sub(l.clock.Now())
	if d > 0 {
		l.wait(ctx, d, nil)
	}
	return ctx.Err()
}

// acquire waits until a write may be made, and counts one that is made now.
func (l *writeLimiter) acquire(ctx context.Context) error {
	if err := l.await(ctx); err != nil {
		return err
	}
	now := l.clock.Now()
	l.next = now.Add(writeInterval)
	if !l.outdated && l.bindsInProgress != nil && l.bindsInProgress() {
		l.nextYielding = now.Add(yieldFactor * writeInterval)
	}
	return nil
}

// errorLogLimiter limits the log of errors that may occur twenty times a second.
type errorLogLimiter struct {
	clock clock.Clock
	last  string
	at    time.Time
}

// allow reports whether an error of that kind may be logged now.
func (l *errorLogLimiter) allow(kind string) bool {
	now := l.clock.Now()
	if l.last == kind && now.Sub(l.at) < errorLogInterval {
		return false
	}
	l.last, l.at = kind, now
	return true
}
