package profile

import (
	"context"
	"errors"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// runPreEnqueue runs the PreEnqueue plugins of a Generation for pod, asynchronously if one
// of them is out-of-tree. A plugin that does not return in time counts as rejecting the
// pod. The gates are checked again when it returns, because the pod may have changed since
// the call.
func (s *Set) runPreEnqueue(ctx context.Context, g *Generation, pod *v1.Pod, lastGate string) (gate string) {
	f := g.Framework
	if f.OutOfTreeGate() == "" {
		gate, _ = f.RunPreEnqueuePlugins(ctx, pod, lastGate, nil)
		return gate
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // so that a plugin that hangs can stop
	var rejecting string
	left := s.callAsync(g, func(w *framework.CallWatch) { rejecting, _ = f.RunPreEnqueuePlugins(ctx, pod, lastGate, w) }, func() {
		s.options.Go(func() { s.options.Queue.RecheckGates(context.Background(), pod.UID) })
	})
	if left == nil {
		return rejecting
	}
	f.ReportCallTimeout(pod, left.Call)
	return left.Plugin
}

// wrapHint returns the queueing hint of a Generation's plugin. It calls the plugin only
// while the Generation is open, and asynchronously if the plugin is out-of-tree. The pod is
// requeued if the hint does not return in time or is not called. While pending counts hints of
// the plugin that have not returned, wrapHint calls no other one.
func (s *Set) wrapHint(g *Generation, h framework.RegisteredEvent, pending *atomic.Int32) fwk.QueueingHintFn {
	hintFn := h.QueueingHintFn
	if hintFn == nil {
		return nil
	}
	return func(logger klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
		if !g.retain() {
			return fwk.Queue, nil
		}
		defer g.Release()
		if !h.OutOfTree {
			return hintFn(logger, pod, oldObj, newObj)
		}
		if s.TooManyAbandonedCalls(g.Blueprint().Name) != nil || pending.Load() > 0 {
			return fwk.Queue, nil
		}
		var hint fwk.QueueingHint
		var err error
		call := framework.Call{Plugin: h.Plugin, Point: "QueueingHint"}
		left := s.callAsync(g, func(w *framework.CallWatch) {
			w.Watch(call, func() { hint, err = hintFn(logger, pod, oldObj, newObj) })
		}, func() { pending.Add(-1) })
		if left == nil {
			return hint, err
		}
		pending.Add(1)
		g.Framework.ReportCallTimeout(nil, call)
		return fwk.Queue, &framework.CallTimeoutError{Call: call}
	}
}

// callAsync calls g's plugins in another goroutine. The caller holds a reference to g. It
// returns nil if they return in time. Otherwise it abandons the call and calls returned when
// they return; their results do not count.
func (s *Set) callAsync(g *Generation, call func(*framework.CallWatch), returned func()) *framework.AbandonedAttempt {
	watch := framework.NewCallWatch(s.runtime())
	watch.Go(func() { call(watch) })
	left := watch.Await()
	if left != nil {
		g.Retain()
		s.keepOpen(g, watch, left.Call, returned)
	}
	return left
}

// keepOpen counts an abandoned call until it returns, and then calls returned and releases
// the caller's reference to g.
func (s *Set) keepOpen(g *Generation, watch *framework.CallWatch, call framework.Call, returned func()) {
	recovered := s.RecordAbandonedCall(g.Framework, call)
	watch.WhenEnded(func() {
		recovered()
		returned()
		g.Release()
	})
}

// QueueSortFailed implements framework.QueueSortFaultHandler.
func (m *builder) QueueSortFailed(err *framework.QueueSortError) {
	m.set.options.Go(func() { m.set.handleSortFailure(m.blueprint.Name, err) })
}

// handleSortFailure sorts the pods of a profile by PrioritySort after its QueueSort plugin
// panicked or hung, until the next Generation. The pods then share the heap of all profiles
// with that sort. Everything else of the Generation stays as it is.
func (s *Set) handleSortFailure(name string, err *framework.QueueSortError) {
	s.options.Log.Error(err, "The QueueSort plugin failed; the profile's pods are sorted by PrioritySort", "profile", name)
	s.mu.Lock()
	state := s.profiles[name]
	s.mu.Unlock()
	if state == nil {
		return
	}
	state.changeMu.Lock()
	defer state.changeMu.Unlock()
	s.mu.Lock()
	current, paused := state.current, state.paused
	s.mu.Unlock()
	if current == nil || current.Framework.QueueSortFault() == nil {
		return // another Generation sorts by now
	}
	var late *framework.CallTimeoutError
	if errors.As(err, &late) && current.retain() {
		s.keepOpen(current, err.Watch, late.Call, func() {})
	}
	s.options.Queue.SetProfile(context.Background(), name, current.queueRules(s.holdFunc(state, name), paused))
	s.notifyDegradedChange(name)
}

// runtime is how plugin calls are started, awaited and timed.
func (s *Set) runtime() framework.Runtime {
	return framework.Runtime{Clock: s.options.Clock, Go: s.options.Go, Wait: s.options.Wait}
}
