package operator

import (
	"context"
	"errors"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// How the time is parted that the process has to end in, --graceful-shutdown-timeout:
// bindings have what the rest leaves.
const (
	// lastWords is for explanations and counters, while this process still leads.
	finalWritesTimeout = 3 * time.Second
	// lastEvents is for Events, which anybody may write.
	finalEventsTimeout = 5 * time.Second
	// lostEvents is the same where leadership was lost: somebody else leads, and
	// nothing of this process should be left.
	leaseLostEventsTimeout = 500 * time.Millisecond
	// leastForBinds is what bindings must have.
	minBindingTime = time.Second
	// undoing is what they need to take back what they did.
	undoTime = 2 * time.Second
	// endingLeast is the least that can be parted so.
	minShutdownTimeout = minBindingTime + undoTime + finalWritesTimeout + finalEventsTimeout
	// tenurePulse is how often it is asked whether the Lease is still held.
	leaseCheckInterval = 200 * time.Millisecond
)

// errLost is why what is under way ends at once.
var errNotLeading = errors.New("this process leads no more")

// errTime is why what is under way ends at last.
var errShutdownTimeout = errors.New("the time is over that this process has to end in")

// ending is how the process ends. Asked to, by SIGTERM, it brings to an end what
// it began: the loop pops no more, bindings are finished, what is to be told is
// told; then the Lease is given back. Where the Lease is lost nothing is finished:
// somebody else may lead already.
type shutdown struct {
	// asked ends when the process is told to end.
	requested context.Context
	// holds says whether this process leads.
	leads func() bool
	// limit is how long the end may take in all.
	timeout time.Duration
	// scheduled is closed when the last binding is finished.
	schedulingDone <-chan struct{}
}

// managers is how long the manager waits for all that it runs.
func (e *shutdown) managerTimeout() time.Duration { return e.timeout - finalEventsTimeout }

// prompt is a loop that ends as soon as the process is asked to: the manager has
// informers and reconcilers end first, and nothing should be decided by what was
// true before.
type stopOnRequest struct {
	manager.LeaderElectionRunnable
	start     func(context.Context) error
	requested context.Context
}

// Start is the loop's.
func (p stopOnRequest) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.requested, cancel)()
	return p.start(ctx)
}

// grace is scheduler.Options.Grace.
func (e *shutdown) bindingContext(ctx context.Context) (context.Context, context.CancelFunc) {
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { e.cancelBindings(life, end) })
	return life, func() { stop(); end(context.Canceled) }
}

// wane ends life when nothing may be finished any more.
func (e *shutdown) cancelBindings(life context.Context, end context.CancelCauseFunc) {
	over := time.NewTimer(e.managerTimeout() - finalWritesTimeout - undoTime)
	defer over.Stop()
	pulse := time.NewTicker(leaseCheckInterval)
	defer pulse.Stop()
	for {
		if e.requested.Err() == nil || !e.leads() {
			end(errNotLeading)
			return
		}
		select {
		case <-life.Done():
			return
		case <-over.C:
			end(errShutdownTimeout)
			return
		case <-pulse.C:
		}
	}
}

// lastWords waits until nothing is scheduled any more, and returns the context of
// what the leader writes after that; an ended one where it leads no more.
func (e *shutdown) finalWrites() (context.Context, context.CancelFunc) {
	if e.requested.Err() != nil {
		select {
		case <-e.schedulingDone:
		case <-time.After(e.managerTimeout()):
		}
	}
	if e.requested.Err() == nil || !e.leads() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		return ctx, cancel
	}
	return context.WithTimeout(context.Background(), finalWritesTimeout)
}

// lastEvents is how long the Events may take that are left when all else ended.
func (e *shutdown) finalEventsTimeout() time.Duration {
	if e.requested.Err() == nil {
		return leaseLostEventsTimeout
	}
	return finalEventsTimeout
}

// ready fails once the process is told to end.
func (e *shutdown) ready() error {
	if e.requested.Err() != nil {
		return errors.New("this process is ending")
	}
	return nil
}
