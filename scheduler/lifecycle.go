package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"
)

// Standby is the part of the Scheduler that every replica runs: it keeps informers,
// cache and queue up to date and writes nothing.
type Standby struct{ *Scheduler }

// NeedLeaderElection reports that followers run Standby too.
func (Standby) NeedLeaderElection() bool { return false }

// Start runs until ctx ends. Every second it does what the loop leaves undone while it
// makes no attempt; see tidyUp.
func (w Standby) Start(ctx context.Context) error {
	s := w.Scheduler
	synced, err := s.eventHandlers.Register(s.options.Informers)
	if err != nil {
		return fmt.Errorf("watching pods and nodes: %w", err)
	}
	if err := watchVolumes(s.volumes, s.options.Informers, s.options.Storage); err != nil {
		return fmt.Errorf("watching volumes: %w", err)
	}
	if !s.takeOverEarly(ctx) {
		return nil
	}
	s.options.Informers.Start(ctx.Done())
	if !synced(ctx) {
		return nil
	}
	s.profiles.NamespacesSynced()
	ticker := s.options.Clock.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			s.tidyUp()
		}
	}
}

// maxIdleDeltas is how many changes of the cluster an idle leader keeps, and those of one
// second more. Applying as many takes a few milliseconds, by which a pod may be delayed,
// and the old versions of objects that they hold are some ten megabytes.
const maxIdleDeltas = 4096

// tidyUp does what attempts do beside their own work, while the loop makes none: it forgets
// the caches of old generations and applies the changes of the cluster. A standby applies
// them at once, so that a new leader begins with a current snapshot. It does nothing while
// the loop works on a pod.
func (s *Scheduler) tidyUp() {
	select {
	case s.progress.busy <- struct{}{}:
		defer func() { <-s.progress.busy }()
	default:
		return
	}
	s.leadMu.Lock()
	defer s.leadMu.Unlock()
	s.cacheBudget.EvictClosed()
	if !s.leading || s.cache.Deltas() > maxIdleDeltas {
		s.cache.UpdateBetweenAttempts()
	}
}

// Ready returns nil once the Scheduler has handled all objects that existed when it
// started.
func (s *Scheduler) Ready() error {
	if !s.eventHandlers.HasSynced() {
		return fmt.Errorf("informers have not synced: pods, nodes and the objects that select pods are still being listed")
	}
	return nil
}

// NeedLeaderElection reports that only the leader schedules.
func (s *Scheduler) NeedLeaderElection() bool { return true }

// Start schedules pods until ctx ends, then finishes or undoes the bindings that
// run; see shutDown.
func (s *Scheduler) Start(ctx context.Context) error {
	defer close(s.ended)
	if !s.eventHandlers.WaitForSync(ctx) {
		return nil
	}
	ctx = klog.NewContext(ctx, s.options.Log)
	s.inFlight.ctx = ctx
	if s.options.ShutdownContext != nil {
		var cancel context.CancelFunc
		s.inFlight.ctx, cancel = s.options.ShutdownContext(ctx)
		defer cancel()
	}
	if s.options.Epoch != nil {
		s.epoch = s.options.Epoch(ctx)
	}
	if !s.handOver(ctx) {
		return nil
	}
	s.leadMu.Lock()
	s.leading = true
	s.leadMu.Unlock()
	s.resumeGroupStatuses()
	s.reportHoldChanges()
	s.options.Go(func() { s.reportHolds(s.inFlight.ctx) })
	s.options.Log.Info("Scheduling", "epoch", s.epoch)
	s.options.Go(func() { s.queue.Run(ctx) })
	s.progress.goroutine = goroutineID()
	s.progress.leading.Store(true)
	defer func() {
		s.progress.leading.Store(false)
		s.progress.died.Store(ctx.Err() == nil)
	}()
	s.run(ctx)
	s.shutDown()
	return nil
}

// Ended returns a channel that is closed when Start has returned: this process
// schedules no more.
func (s *Scheduler) Ended() <-chan struct{} { return s.ended }

// undoTimeout is how long binding cycles may take to undo what they did.
const undoTimeout = time.Second

// errShuttingDown is the error of pods that wait on Permit when the leadership ends.
var errShuttingDown = errors.New("the scheduler shuts down; the next leader schedules the pod")

// shutDown is called after the last pod was popped. Binding cycles finish or undo what
// they did; pods that wait on Permit, which may take long, are rejected at once and left to
// the next leader. Status updates of pods that are queued are written. All of that ends with
// the context of inFlight, or undoTimeout later where binding cycles have to undo.
func (s *Scheduler) shutDown() {
	if s.options.ShutdownContext == nil {
		s.inFlight.Wait() // their context has ended
		s.options.Log.Info("Scheduling ended")
		return
	}
	s.waitingPods.Stop(errShuttingDown)
	done := make(chan struct{})
	s.options.Go(func() {
		s.inFlight.Wait()
		close(done)
	})
	ended := s.options.Wait(s.inFlight.ctx, done) == nil || s.undoBindings(done)
	s.reportHoldChanges()
	if s.options.Wait(s.inFlight.ctx, s.binding.StatusFlushed()) != nil {
		s.options.Log.Info("Scheduling ends before the status of all pods was written")
	}
	if ended && s.options.Handover.Journal != nil {
		s.options.Handover.Journal.Close(context.WithoutCancel(s.inFlight.ctx))
	}
	s.options.Log.Info("Scheduling ended")
}

// undoBindings gives the binding cycles undoTimeout to undo what they did. It does not wait
// longer for a plugin that does not return, and returns whether all have ended.
func (s *Scheduler) undoBindings(done <-chan struct{}) bool {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer s.options.Clock.AfterFunc(undoTimeout, cancel).Stop()
	if s.options.Wait(ctx, done) != nil {
		s.options.Log.Error(nil, "Scheduling ends while binding cycles run: a plugin or the API server does not answer")
		return false
	}
	return true
}
