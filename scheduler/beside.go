package scheduler

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// A profile whose plugins are all built in is tried in the loop. Where others
// are among them the attempt runs beside it, and the loop waits; but for no call
// longer than framework.CallLimit. While it waits nothing moves, so that it makes
// no difference to the plugins.

// errLeft is why the context of an attempt ended that was left behind.
var errAbandoned = fmt.Errorf("the plugin took longer than %v", framework.CallTimeout)

// placeBeside is place for a turn that the loop may have to leave behind. It
// reports false when it did: the turn is settled then, or settles itself.
func (s *Scheduler) runSchedulingAsync(ctx context.Context, t *schedulingCycle, snapshot *cache.Snapshot) (err error, here bool) {
	if err := s.profiles.TooManyAbandonedCalls(t.generation.Blueprint().Name); err != nil {
		return err, true
	}
	b := &asyncAttempt{
		Scheduler: s, schedulingCycle: t, watch: framework.NewCallWatch(s.options.Clock), cycle: s.cycle,
		done: make(chan struct{}), reported: make(chan struct{}),
	}
	own, cancel := context.WithCancelCause(ctx)
	t.cancel = cancel
	t.state.SetCallWatch(b.watch)
	t.heartbeat.watch.Store(b.watch)
	t.generation.Retain()
	s.options.Go(func() {
		t.heartbeat.goroutine.Store(goroutineID())
		b.run(own, snapshot)
	})
	left := b.watch.Await(framework.Waiter{Wait: s.options.Wait, Clock: s.options.Clock}, b.done)
	t.heartbeat.goroutine.Store(s.progress.goroutine)
	if left == nil {
		s.cycle = b.cycle
		return b.err, true
	}
	s.abandon(ctx, b, left)
	return nil, false
}

// beside is an attempt beside the loop.
type asyncAttempt struct {
	*Scheduler
	*schedulingCycle
	watch *framework.CallWatch
	cycle cycle.Cycle
	err   error
	// done is closed when the attempt is over, counted when the loop has left it
	// and said what back says again.
	done, reported chan struct{}
	recovered      func()
}

// run is the attempt. When it was left behind meanwhile it comes back here only
// if the pod has been assumed: it is settled then as any other flight.
func (b *asyncAttempt) run(ctx context.Context, snapshot *cache.Snapshot) {
	ended := false
	defer close(b.done)
	defer b.generation.Release()
	defer func() {
		if !ended && b.watch.End() { // by the plugin's late return
			<-b.reported
			b.recovered()
		}
	}()
	b.err = b.schedulePod(ctx, b.schedulingCycle, snapshot, &b.cycle)
	ended = true
	if !b.watch.End() {
		return
	}
	<-b.reported
	b.recovered()
	defer b.inFlight.Done()
	defer b.release(b.schedulingCycle)
	if b.err == nil {
		b.bindingCycle(ctx, b.schedulingCycle)
		return
	}
	if b.flight != nil {
		b.wakeForFreedResources(ctx, b.schedulingCycle, b.err)
	}
	b.handleSchedulingFailure(ctx, b.schedulingCycle, b.err)
}

// leave goes on without an attempt. What its plugin still sees is left to it.
func (s *Scheduler) abandon(ctx context.Context, b *asyncAttempt, left *framework.AbandonedAttempt) {
	late := &framework.CallTimeoutError{Call: left.Call}
	logger, t := klog.FromContext(ctx), b.schedulingCycle
	logger.Error(late, "Going on without the plugin", "beside", left.StillRunning)
	b.recovered = s.profiles.RecordAbandonedCall(t.generation.Framework, left.Call)
	if !fault.LateShown {
		s.cache.ReplaceNodeInfos()
	}
	if left.StillRunning {
		// The pod keeps its room, and its turn: the flight is under way, only that
		// the plugin has not let it go yet.
		s.cycle = b.cycle
		s.inFlight.Add(1)
		if left.Point != "Permit" {
			t.generation.Framework.ReportCallTimeout(t.Pod, left.Call)
			s.binding.SetNotScheduled(t.Pod, v1.PodReasonSchedulerError, late.Error(), nil)
		}
		close(b.reported)
		return
	}
	t.generation.ResetEquivalenceCache()
	t.generation.Framework.ReportCallTimeout(t.Pod, left.Call)
	close(b.reported)
	t.cancel(errAbandoned)
	again := &schedulingCycle{Attempt: t.Attempt, generation: t.generation, start: t.start, span: t.span, nominatingInfo: clearNominatedNode}
	s.handleSchedulingFailure(ctx, again, late)
	s.release(again)
}
