package scheduler

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// pluginSteps are steps 4 and 5 of scheduleOne: those that call plugins. They advance c.
type pluginSteps func(ctx context.Context, c *cycle.Cycle) error

// errAbandoned is the cause with which the context of an abandoned attempt ends.
var errAbandoned = fmt.Errorf("the plugin took longer than %v", framework.CallTimeout)

// runAsync runs the steps in a goroutine and waits for them, but for no plugin call longer
// than framework.CallTimeout. While the loop waits, snapshot and queue do not change, so
// that plugins see no difference. It returns false when the loop abandoned the attempt: its
// failure is recorded then, or the attempt goes on and records its own result.
func (s *Scheduler) runAsync(ctx context.Context, t *schedulingCycle, steps pluginSteps) (finished bool, err error) {
	if err := s.profiles.TooManyAbandonedCalls(t.generation.Blueprint().Name); err != nil {
		return true, err
	}
	a := &asyncAttempt{
		Scheduler: s, schedulingCycle: t, steps: steps, watch: framework.NewCallWatch(s.options.Clock), cycle: s.cycle,
		done: make(chan struct{}), reported: make(chan struct{}),
	}
	ownContext, cancel := context.WithCancelCause(ctx)
	t.cancel = cancel
	t.state.SetCallWatch(a.watch)
	t.heartbeat.watch.Store(a.watch)
	t.generation.Retain()
	s.options.Go(func() {
		t.heartbeat.goroutine.Store(goroutineID())
		a.run(ownContext)
	})
	abandoned := a.watch.Await(framework.Waiter{Wait: s.options.Wait, Clock: s.options.Clock}, a.done)
	t.heartbeat.goroutine.Store(s.progress.goroutine)
	if abandoned == nil {
		s.cycle = a.cycle
		return true, a.err
	}
	s.abandon(ctx, a, abandoned)
	return false, nil
}

// asyncAttempt is an attempt whose plugin steps run in a goroutine of their own.
type asyncAttempt struct {
	*Scheduler
	*schedulingCycle
	steps pluginSteps
	watch *framework.CallWatch
	cycle cycle.Cycle
	err   error
	// done is closed when the attempt has ended. reported is closed when the loop has
	// abandoned the attempt and set recovered, which reports that the late call returned.
	done, reported chan struct{}
	recovered      func()
}

// run runs the attempt. After the loop abandoned it, the steps return here only if the pod
// is assumed; then run goes on as a binding cycle. Otherwise the late call's goroutine
// exits in framework, and only the deferred functions run.
func (a *asyncAttempt) run(ctx context.Context) {
	returned := false
	defer close(a.done)
	defer a.generation.Release()
	defer func() {
		if !returned && a.watch.End() { // the late call of an abandoned attempt returned
			<-a.reported
			a.recovered()
		}
	}()
	a.err = a.steps(ctx, &a.cycle)
	returned = true
	if !a.watch.End() {
		return
	}
	<-a.reported
	a.recovered()
	defer a.inFlight.Done()
	defer a.release(a.schedulingCycle)
	if a.err == nil {
		a.bindingCycle(ctx, a.schedulingCycle)
		return
	}
	if a.assignment != nil {
		a.wakeForFreedResources(ctx, a.schedulingCycle, a.err)
	}
	a.handleSchedulingFailure(ctx, a.schedulingCycle, a.err)
}

// abandon lets the loop go on without the attempt. What the late call can still read is
// not changed any more: the cache replaces its NodeInfos instead.
func (s *Scheduler) abandon(ctx context.Context, a *asyncAttempt, abandoned *framework.AbandonedAttempt) {
	timeout := &framework.CallTimeoutError{Call: abandoned.Call}
	logger, t := klog.FromContext(ctx), a.schedulingCycle
	logger.Error(timeout, "The loop goes on without the plugin's result", "attemptContinues", abandoned.StillRunning)
	a.recovered = s.profiles.RecordAbandonedCall(t.generation.Framework, abandoned.Call)
	if !fault.LateShown {
		s.cache.ReplaceNodeInfos()
	}
	if abandoned.StillRunning {
		// The pod is assumed and stays so: the attempt goes on when the call returns.
		s.cycle = a.cycle
		s.inFlight.Add(1)
		if abandoned.Point != "Permit" {
			t.generation.Framework.ReportCallTimeout(t.Pod, abandoned.Call)
			s.binding.SetNotScheduled(t.Pod, v1.PodReasonSchedulerError, timeout.Error(), nil)
		}
		close(a.reported)
		return
	}
	t.generation.ResetEquivalenceCache()
	t.generation.Framework.ReportCallTimeout(t.Pod, abandoned.Call)
	close(a.reported)
	t.cancel(errAbandoned)
	// The late call may still use t: the failure is recorded with a cycle of its own.
	failed := &schedulingCycle{Attempt: t.Attempt, generation: t.generation, start: t.start, span: t.span, nominatingInfo: clearNominatedNode}
	s.handleSchedulingFailure(ctx, failed, timeout)
	s.release(failed)
}
