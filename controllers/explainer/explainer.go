// Package explainer writes why pods wait, and where they went: what lies on the
// Desk becomes SchedulingDecisions, within a budget.
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
	"github.com/berthdev/berth/scheduler/fault"
)

const (
	// explanationInterval is the least time between two writes: twenty a second,
	// whatever waits.
	writeInterval = 50 * time.Millisecond
	// yielding is how many times longer it is while pods are being bound: with
	// all twenty a second, on two cores, a stream lost 5 % of its rate, and with a
	// fifth of them 3 %. What is outdated does not yield.
	yieldFactor = 10
	// unservedPause is how long the API server is left alone that does not serve
	// SchedulingDecisions.
	unservedRetryInterval = 10 * time.Second
	// longestPause bounds how long it is left alone when it fails.
	maxBackoff = 30 * time.Second
	// objectPause is how long one object is left alone that could not be
	// written, while others are.
	objectRetryInterval = time.Minute
	// complaintEvery is how often trouble of one kind is logged.
	errorLogInterval = time.Minute
)

// explainer writes as SchedulingDecisions what waits on the Desk, one at a time:
// where the API server is slow it asks for less.
type explainer struct {
	queue     *explain.Queue
	decisions *decisionClient
	pods      corelisters.PodLister
	synced    func() bool
	clock     clock.Clock
	limiter   *writeLimiter
	// lastWords is Options'.
	finalWrites func() (context.Context, context.CancelFunc)
	// setbacks are the failures since the last success.
	failures int
	errorLog errorLogLimiter
}

// Options are what an explainer is made of; all but Busy are required.
type Options struct {
	// Desk is where explanations wait to be written.
	Queue *explain.Queue
	// Decisions is what they are written with, see NewClient.
	Client restclient.Interface
	// Pods holds every pod that has not ended, once PodsSynced says so.
	Pods       corelisters.PodLister
	PodsSynced func() bool
	// Clock paces the writes.
	Clock clock.Clock
	// Busy says whether pods are being bound, to which explanations yield; may be
	// nil.
	BindsInProgress func() bool
	// LastWords waits until nothing is scheduled any more, and returns the context
	// in which what waits then is still written; nil: nothing is.
	FinalWrites func() (context.Context, context.CancelFunc)
}

// New returns what a manager runs while it leads.
func New(o Options) manager.Runnable {
	b := &writeLimiter{clock: o.Clock, bindsInProgress: o.BindsInProgress}
	return &explainer{
		queue: o.Queue, decisions: &decisionClient{rest: o.Client, limiter: b},
		pods: o.Pods, synced: o.PodsSynced, clock: o.Clock, limiter: b, errorLog: errorLogLimiter{clock: o.Clock}, finalWrites: o.FinalWrites,
	}
}

// NeedLeaderElection keeps followers from writing.
func (x *explainer) NeedLeaderElection() bool { return true }

// Start finds out what is there, and then writes until ctx ends, and what is due
// at the end.
func (x *explainer) Start(ctx context.Context) error {
	logger := log.FromContext(ctx).WithName("explainer")
	for {
		pause, ok := x.loadExisting(ctx, logger)
		if ok {
			break
		}
		if !waitFor(ctx, x.clock, pause, nil) {
			return nil
		}
	}
	for {
		pause, wake := x.runOnce(ctx, logger)
		if !waitFor(ctx, x.clock, pause, wake) || ctx.Err() != nil {
			x.writeRemaining(logger)
			return nil
		}
	}
}

// finish writes what is due when no pod is tried any more, within the budget and
// as far as it comes. What is not due has been told, only not so well.
func (x *explainer) writeRemaining(logger logr.Logger) {
	if x.finalWrites == nil {
		return
	}
	ctx, cancel := x.finalWrites()
	defer cancel()
	for {
		pause, wake := x.runOnce(ctx, logger)
		nothing := wake != nil && x.limiter.yieldDelay() == 0
		if nothing || ctx.Err() != nil || !waitFor(ctx, x.clock, pause, nil) {
			return
		}
	}
}

// forever is how long nothing is looked for that says itself when it comes.
const idleInterval = time.Hour

// turn does at most one thing, and says how long the next may wait, and for
// what.
func (x *explainer) runOnce(ctx context.Context, logger logr.Logger) (time.Duration, <-chan struct{}) {
	// What is due is chosen when it can be written, and not before.
	if x.limiter.wait(ctx) != nil {
		return 0, nil
	}
	take, yields := x.queue.Take, x.limiter.yieldDelay()
	if yields > 0 {
		take = x.queue.TakeOutdated
	}
	errand, next, ok := take()
	pause := idleInterval
	switch {
	case ok:
		x.limiter.outdated = errand.Outdated
		return x.process(ctx, logger, errand), nil
	case !next.IsZero():
		pause = next.Sub(x.clock.Now())
	}
	if yields > 0 {
		pause = min(pause, yields)
	}
	return pause, x.queue.Changed()
}

// rest returns after d, or when something arrives on wake; false when ctx
// ended.
func waitFor(ctx context.Context, clock clock.Clock, d time.Duration, wake <-chan struct{}) bool {
	timer := clock.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-wake:
	case <-timer.C():
	}
	return true
}

// budget spaces writes out.
type writeLimiter struct {
	clock clock.Clock
	// busy says whether binds are under way, to which this yields; may be nil.
	bindsInProgress func() bool
	// next is when there may be another write, others when one that yields.
	next, nextYielding time.Time
	// outdated says that what is written now yields to nobody: it is about an object
	// that is not true any more, because of a bind.
	outdated bool
}

// yields returns for how long nothing may be written but what is outdated.
func (b *writeLimiter) yieldDelay() time.Duration { return max(b.nextYielding.Sub(b.clock.Now()), 0) }

// wait returns when there may be a write, or with the error of ctx.
func (b *writeLimiter) wait(ctx context.Context) error {
	d := b.next.Sub(b.clock.Now())
	if fault.OutdatedYields {
		d = max(d, b.yieldDelay())
	}
	if d > 0 {
		waitFor(ctx, b.clock, d, nil)
	}
	return ctx.Err()
}

// spend waits until there may be a write, which is made now.
func (b *writeLimiter) acquire(ctx context.Context) error {
	if err := b.wait(ctx); err != nil {
		return err
	}
	now := b.clock.Now()
	b.next = now.Add(writeInterval)
	if !b.outdated && b.bindsInProgress != nil && b.bindsInProgress() {
		b.nextYielding = now.Add(yieldFactor * writeInterval)
	}
	return nil
}

// complaint logs trouble that may come twenty times a second.
type errorLogLimiter struct {
	clock clock.Clock
	last  string
	at    time.Time
}

// due says whether trouble of that kind is worth a line.
func (c *errorLogLimiter) allow(kind string) bool {
	now := c.clock.Now()
	if c.last == kind && now.Sub(c.at) < errorLogInterval {
		return false
	}
	c.last, c.at = kind, now
	return true
}
