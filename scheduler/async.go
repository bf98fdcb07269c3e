package scheduler

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/profile"
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
	a := &asyncAttempt{Scheduler: s, schedulingCycle: t, watch: framework.NewCallWatch(s.runtime()), cycle: s.cycle}
	ownContext, cancel := context.WithCancelCause(ctx)
	t.cancel = cancel
	t.state.SetCallWatch(a.watch)
	t.heartbeat.watch.Store(a.watch)
	a.watch.Go(func() {
		t.heartbeat.goroutine.Store(goroutineID())
		a.err = steps(ownContext, &a.cycle)
	})
	abandoned := a.watch.Await()
	t.heartbeat.goroutine.Store(s.progress.goroutine)
	if abandoned == nil {
		s.cycle = a.cycle
		return true, a.result()
	}
	a.abandon(ctx, ownContext, abandoned)
	return false, nil
}

// asyncAttempt is an attempt whose plugin steps run in a goroutine of their own.
type asyncAttempt struct {
	*Scheduler
	*schedulingCycle
	watch *framework.CallWatch
	cycle cycle.Cycle
	err   error
}

// result is why the attempt failed, nil where it did not. It is called after the attempt has
// ended. A plugin that ended its goroutine has stopped the attempt anywhere: the cached
// verdicts may be incomplete.
func (a *asyncAttempt) result() error {
	goexit := a.watch.Goexit(framework.Call{})
	if goexit == nil {
		return a.err
	}
	a.generation.ResetEquivalenceCache()
	a.generation.Framework.ReportGoexit(a.Pod, goexit)
	return goexit
}

// isolate runs a part of a group's cycle, whose calls of plugins state tracks. The loop waits for
// it, however long a call takes. Where the generation has out-of-tree plugins, work has a goroutine
// of its own, and isolate returns the error of a plugin that ended that.
func (s *Scheduler) isolate(generation *profile.Generation, state interface{ SetCallWatch(*framework.CallWatch) }, work func()) *framework.PanicError {
	if !generation.Framework.HasOutOfTreePlugins() {
		work()
		return nil
	}
	watch := framework.NewCallWatch(s.runtime())
	state.SetCallWatch(watch)
	s.progress.current.Load().watch.Store(watch)
	goexit := watch.Isolate(work)
	if goexit != nil {
		generation.ResetEquivalenceCache() // as result does
	}
	return goexit
}

// abandon lets the loop go on without the attempt. What the late call can still read is
// not changed any more: the cache replaces its NodeInfos instead.
func (a *asyncAttempt) abandon(ctx, ownContext context.Context, abandoned *framework.AbandonedAttempt) {
	timeout := &framework.CallTimeoutError{Call: abandoned.Call}
	logger, t := klog.FromContext(ctx), a.schedulingCycle
	logger.Error(timeout, "The loop goes on without the plugin's result", "attemptContinues", abandoned.StillRunning)
	recovered := a.profiles.RecordAbandonedCall(t.generation.Framework, abandoned.Call)
	a.cache.ReplaceNodeInfos()
	if abandoned.StillRunning {
		// The pod is assumed and stays so: the attempt goes on when the call returns.
		a.Scheduler.cycle = a.cycle
		a.inFlight.Add(1)
		t.StopRecordingEvents() // the queue would keep all events until the call returns
		if abandoned.Point != "Permit" {
			t.generation.Framework.ReportCallTimeout(t.Pod, abandoned.Call)
			a.binding.SetNotScheduled(t.Pod, v1.PodReasonSchedulerError, timeout.Error(), nil)
		}
		a.watch.WhenEnded(func() {
			recovered()
			a.resume(ownContext)
		})
		return
	}
	t.generation.ResetEquivalenceCache()
	t.generation.Framework.ReportCallTimeout(t.Pod, abandoned.Call)
	t.generation.Retain() // the plugins are not closed before the call returns
	a.watch.WhenEnded(func() {
		recovered()
		t.generation.Release()
	})
	t.cancel(errAbandoned)
	// The late call may still use t: the failure is recorded with a cycle of its own.
	failed := &schedulingCycle{Attempt: t.Attempt, generation: t.generation, start: t.start, span: t.span, nominatingInfo: clearNominatedNode}
	a.handleSchedulingFailure(ctx, failed, timeout)
	a.release(failed)
}

// resume goes on with the attempt of an assumed pod after its late call has returned.
func (a *asyncAttempt) resume(ctx context.Context) {
	defer a.inFlight.Done()
	defer a.release(a.schedulingCycle)
	err := a.result()
	if err == nil {
		a.bindingCycle(ctx, a.schedulingCycle)
		return
	}
	if a.assignment != nil {
		a.wakeForFreedResources(ctx, a.schedulingCycle, err)
	}
	a.handleSchedulingFailure(ctx, a.schedulingCycle, err)
}

// runtime is how plugin calls are started, awaited and timed.
func (s *Scheduler) runtime() framework.Runtime {
	return framework.Runtime{Clock: s.options.Clock, Go: s.options.Go, Wait: s.options.Wait}
}
