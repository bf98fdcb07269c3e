package operator

import (
	"context"
	"errors"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// How --graceful-shutdown-timeout, the time of a graceful shutdown, is divided.
// Bindings may use what the other parts leave.
const (
	// finalWritesTimeout is for explanations and counters, while this process still
	// leads.
	finalWritesTimeout = 3 * time.Second
	// finalEventsTimeout is for Events, which any process may write.
	finalEventsTimeout = 5 * time.Second
	// leaseLostEventsTimeout is the same after leadership was lost: another process
	// leads, and this one should end soon.
	leaseLostEventsTimeout = 500 * time.Millisecond
	// minBindingTime is the least time for bindings.
	minBindingTime = time.Second
	// undoTime is the time that cancelled bindings have to undo what they did.
	undoTime = 2 * time.Second
	// minShutdownTimeout is the shortest timeout that can be divided so.
	minShutdownTimeout = minBindingTime + undoTime + finalWritesTimeout + finalEventsTimeout
	// leaseCheckInterval is how often the shutdown checks whether this process still
	// holds the Lease.
	leaseCheckInterval = 200 * time.Millisecond
)

// errNotLeading is why bindings are cancelled when leadership is lost.
var errNotLeading = errors.New("this process is not the leader any more")

// errShutdownTimeout is why bindings are cancelled when their time is over.
var errShutdownTimeout = errors.New("the time for the graceful shutdown is over")

// shutdown ends the process. When it is requested, by SIGTERM, the process completes
// what it began: the loop pops no more pods, bindings are completed, explanations,
// counters and Events are written, and then the Lease is released. When the Lease is
// lost nothing is completed, since another process may lead already.
type shutdown struct {
	// requested ends when the shutdown is requested.
	requested context.Context
	// leads reports whether this process leads.
	leads func() bool
	// timeout is how long the whole shutdown may take.
	timeout time.Duration
	// schedulingDone is closed when the last binding has ended.
	schedulingDone <-chan struct{}
}

// managerTimeout is how long controller-runtime's manager waits for what it runs.
func (s *shutdown) managerTimeout() time.Duration { return s.timeout - finalEventsTimeout }

// stopOnRequest is a runnable that ends as soon as the shutdown is requested. The
// manager would first wait for informers and reconcilers, and the loop must not decide
// with state that is no longer updated.
type stopOnRequest struct {
	manager.LeaderElectionRunnable
	start     func(context.Context) error
	requested context.Context
}

// Start runs start until ctx ends or the shutdown is requested.
func (r stopOnRequest) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.requested, cancel)()
	return r.start(ctx)
}

// bindingContext implements scheduler.Options.ShutdownContext: it returns the context of
// bindings, which outlives ctx while they may be completed.
func (s *shutdown) bindingContext(ctx context.Context) (context.Context, context.CancelFunc) {
	bindings, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { s.cancelBindings(bindings, cancel) })
	return bindings, func() { stop(); cancel(context.Canceled) }
}

// cancelBindings cancels bindings when they may not be completed any more.
func (s *shutdown) cancelBindings(bindings context.Context, cancel context.CancelCauseFunc) {
	deadline := time.NewTimer(s.managerTimeout() - finalWritesTimeout - undoTime)
	defer deadline.Stop()
	ticker := time.NewTicker(leaseCheckInterval)
	defer ticker.Stop()
	for {
		if s.requested.Err() == nil || !s.leads() {
			cancel(errNotLeading)
			return
		}
		select {
		case <-bindings.Done():
			return
		case <-deadline.C:
			cancel(errShutdownTimeout)
			return
		case <-ticker.C:
		}
	}
}

// finalWrites waits until scheduling has ended, and returns the context of what the
// leader writes after that. The context is ended already when this process does not
// lead any more.
func (s *shutdown) finalWrites() (context.Context, context.CancelFunc) {
	if s.requested.Err() != nil {
		select {
		case <-s.schedulingDone:
		case <-time.After(s.managerTimeout()):
		}
	}
	if s.requested.Err() == nil || !s.leads() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		return ctx, cancel
	}
	return context.WithTimeout(context.Background(), finalWritesTimeout)
}

// finalEventsTimeout returns how long the remaining Events may take after everything
// else has ended.
func (s *shutdown) finalEventsTimeout() time.Duration {
	if s.requested.Err() == nil {
		return leaseLostEventsTimeout
	}
	return finalEventsTimeout
}

// ready returns an error once the shutdown is requested.
func (s *shutdown) ready() error {
	if s.requested.Err() != nil {
		return errors.New("this process is shutting down")
	}
	return nil
}
