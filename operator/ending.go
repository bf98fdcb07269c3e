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
	lastWords = 3 * time.Second
	// lastEvents is for Events, which anybody may write.
	lastEvents = 5 * time.Second
	// lostEvents is the same where leadership was lost: somebody else leads, and
	// nothing of this process should be left.
	lostEvents = 500 * time.Millisecond
	// leastForBinds is what bindings must have.
	leastForBinds = time.Second
	// undoing is what they need to take back what they did.
	undoing = 2 * time.Second
	// endingLeast is the least that can be parted so.
	endingLeast = leastForBinds + undoing + lastWords + lastEvents
	// tenurePulse is how often it is asked whether the Lease is still held.
	tenurePulse = 200 * time.Millisecond
)

// errLost is why what is under way ends at once.
var errLost = errors.New("this process leads no more")

// errTime is why what is under way ends at last.
var errTime = errors.New("the time is over that this process has to end in")

// ending is how the process ends. Asked to, by SIGTERM, it brings to an end what
// it began: the loop pops no more, bindings are finished, what is to be told is
// told; then the Lease is given back. Where the Lease is lost nothing is finished:
// somebody else may lead already.
type ending struct {
	// asked ends when the process is told to end.
	asked context.Context
	// holds says whether this process leads.
	holds func() bool
	// limit is how long the end may take in all.
	limit time.Duration
	// scheduled is closed when the last binding is finished.
	scheduled <-chan struct{}
}

// managers is how long the manager waits for all that it runs.
func (e *ending) managers() time.Duration { return e.limit - lastEvents }

// prompt is a loop that ends as soon as the process is asked to: the manager has
// informers and reconcilers end first, and nothing should be decided by what was
// true before.
type prompt struct {
	manager.LeaderElectionRunnable
	start func(context.Context) error
	asked context.Context
}

// Start is the loop's.
func (p prompt) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.asked, cancel)()
	return p.start(ctx)
}

// grace is scheduler.Options.Grace.
func (e *ending) grace(ctx context.Context) (context.Context, context.CancelFunc) {
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { e.wane(life, end) })
	return life, func() { stop(); end(context.Canceled) }
}

// wane ends life when nothing may be finished any more.
func (e *ending) wane(life context.Context, end context.CancelCauseFunc) {
	over := time.NewTimer(e.managers() - lastWords - undoing)
	defer over.Stop()
	pulse := time.NewTicker(tenurePulse)
	defer pulse.Stop()
	for {
		if e.asked.Err() == nil || !e.holds() {
			end(errLost)
			return
		}
		select {
		case <-life.Done():
			return
		case <-over.C:
			end(errTime)
			return
		case <-pulse.C:
		}
	}
}

// lastWords waits until nothing is scheduled any more, and returns the context of
// what the leader writes after that; an ended one where it leads no more.
func (e *ending) lastWords() (context.Context, context.CancelFunc) {
	if e.asked.Err() != nil {
		select {
		case <-e.scheduled:
		case <-time.After(e.managers()):
		}
	}
	if e.asked.Err() == nil || !e.holds() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		return ctx, cancel
	}
	return context.WithTimeout(context.Background(), lastWords)
}

// lastEvents is how long the Events may take that are left when all else ended.
func (e *ending) lastEvents() time.Duration {
	if e.asked.Err() == nil {
		return lostEvents
	}
	return lastEvents
}

// ready fails once the process is told to end.
func (e *ending) ready() error {
	if e.asked.Err() != nil {
		return errors.New("this process is ending")
	}
	return nil
}
