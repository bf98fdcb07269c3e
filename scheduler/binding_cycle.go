package scheduler

import (
	"context"
	"errors"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/binding"
	"github.com/berthdev/berth/scheduler/framework"
)

// startBindingCycle runs the binding cycle in a goroutine, which releases t at its end.
func (s *Scheduler) startBindingCycle(ctx context.Context, t *schedulingCycle) {
	s.inFlight.Add(1)
	bindingGoroutines.Inc()
	s.options.Go(func() {
		defer s.inFlight.Done()
		defer bindingGoroutines.Dec()
		defer s.release(t)
		s.bindingCycle(ctx, t)
	})
}

// bindingCycle waits on Permit, runs PreBind, Bind and PostBind, and records the result.
func (s *Scheduler) bindingCycle(ctx context.Context, t *schedulingCycle) {
	t.state.SetBinding()
	end := s.monitorBinding(ctx, t)
	err := s.binding.Finish(ctx, t.assignment)
	end()
	switch {
	case err == nil:
		s.recordBound(ctx, t)
	case errors.Is(err, binding.ErrGone):
		klog.FromContext(ctx).V(1).Info("Not bound: the pod was deleted or has another node", "node", t.assignment.Node)
		t.traceResult(resultGone)
		t.Done()
		s.wakeForFreedResources(ctx, t, nil)
	default:
		// Before the pod goes back to the queue: the event happened before that.
		s.wakeForFreedResources(ctx, t, err)
		s.handleSchedulingFailure(ctx, t, err)
	}
}

// eventAssignedPodDelete is the event of resources that a pod frees on a node.
var eventAssignedPodDelete = fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}

// wakeForFreedResources requeues pods that may fit now that an assumed pod is not bound:
// for them this is like its deletion. A pod that failed with a FitError does not requeue
// itself. What is assumed and undone within one scheduling cycle frees nothing, since no
// other pod was tried in between.
func (s *Scheduler) wakeForFreedResources(ctx context.Context, t *schedulingCycle, err error) {
	var concerned func(*v1.Pod) bool
	var fitErr *framework.FitError
	if errors.As(err, &fitErr) {
		uid := t.Pod.UID
		concerned = func(pod *v1.Pod) bool { return pod.UID != uid }
	}
	s.queue.Event(ctx, eventAssignedPodDelete, t.assignment.AssignedPod(), nil, concerned)
}

// bindingMonitor watches the calls of out-of-tree plugins in a binding cycle. A call that
// takes longer than framework.CallTimeout blocks its pod only; it is reported, and counts
// among the profile's abandoned calls until the cycle ends.
type bindingMonitor struct {
	*Scheduler
	*schedulingCycle
	watch *framework.CallWatch

	mu   sync.Mutex
	stop func() bool
}

// monitorBinding monitors the binding cycle until end is called.
func (s *Scheduler) monitorBinding(ctx context.Context, t *schedulingCycle) (end func()) {
	if !t.generation.Framework.HasOutOfTreePlugins() {
		return func() {}
	}
	m := &bindingMonitor{Scheduler: s, schedulingCycle: t, watch: framework.NewCallWatch(s.runtime())}
	t.state.SetCallWatch(m.watch)
	m.scheduleCheck(ctx, framework.CallTimeout)
	return m.end
}

// scheduleCheck calls check after that time, unless the binding cycle ends before.
func (m *bindingMonitor) scheduleCheck(ctx context.Context, after time.Duration) {
	timer := m.options.Clock.AfterFunc(after, func() { m.options.Go(func() { m.check(ctx) }) })
	m.mu.Lock()
	m.stop = timer.Stop
	m.mu.Unlock()
	if m.watch.Ended() {
		timer.Stop()
	}
}

// check reports a call that is late. It calls other packages without its lock, since they
// may wait for the binding cycle to end. When the cycle ends meanwhile, the report is taken
// back at once; the status that it wrote is for an old version of the pod, and is dropped
// where the pod has a node.
func (m *bindingMonitor) check(ctx context.Context) {
	if m.watch.Ended() {
		return
	}
	call, again := m.watch.Overdue()
	if call == nil {
		m.scheduleCheck(ctx, again)
		return
	}
	timeout, f := &framework.CallTimeoutError{Call: *call}, m.generation.Framework
	klog.FromContext(ctx).Error(timeout, "The plugin blocks the pod's binding cycle", "node", m.assignment.Node)
	m.StopRecordingEvents() // the queue would keep all events until the call returns
	if call.Point == "PreBind" || call.Point == "PreBindPreFlight" {
		// From Bind on the pod may be bound already.
		m.binding.SetNotScheduled(m.Pod, v1.PodReasonSchedulerError, timeout.Error(), nil)
	}
	f.ReportCallTimeout(m.Pod, *call)
	m.watch.WhenEnded(m.profiles.RecordAbandonedCall(f, *call))
}

// end ends the monitor, and takes back the report of a late call.
func (m *bindingMonitor) end() {
	m.watch.End()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stop()
}
