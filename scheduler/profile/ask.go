package profile

import (
	"context"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// askGate asks the PreEnqueue plugins of a Generation whether pod may be tried,
// beside the caller if one of them is not built in. One that does not come back
// counts as shut, and is asked again when it does: of what it says then the pod
// may be another.
func (s *Set) runPreEnqueue(ctx context.Context, g *Generation, pod *v1.Pod, lastGate string) (gate string) {
	f := g.Framework
	if f.OutOfTreeGate() == "" {
		gate, _ = f.RunPreEnqueuePlugins(ctx, pod, lastGate, nil)
		return gate
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // which a plugin that hangs may heed
	var said string
	left := s.callAsync(g, func(w *framework.CallWatch) { said, _ = f.RunPreEnqueuePlugins(ctx, pod, lastGate, w) }, func() {
		if !fault.LateGateForgotten {
			s.options.Go(func() { s.options.Queue.RecheckGates(context.Background(), pod.UID) })
		}
	})
	if left == nil {
		return said
	}
	f.ReportCallTimeout(pod, left.Call)
	return left.Plugin
}

// hint returns the hint of a Generation's plugin, which is asked only as long as
// the Generation is not closed; beside the caller if the plugin is not built in.
// One that does not come back wakes the pod, and so does one that is not asked:
// while out says that hints of the plugin have not come back, nobody waits for
// one more.
func (s *Set) wrapHint(g *Generation, h framework.RegisteredEvent, out *atomic.Int32) fwk.QueueingHintFn {
	ask := h.QueueingHintFn
	if ask == nil {
		return nil
	}
	return func(logger klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
		if !g.retain() && !fault.HintOfClosedGeneration {
			return fwk.Queue, nil
		}
		defer g.Release()
		if !h.OutOfTree || fault.HintWaitedFor {
			return ask(logger, pod, oldObj, newObj)
		}
		if s.TooManyAbandonedCalls(g.Blueprint().Name) != nil || out.Load() > 0 && !fault.LateHintAskedAgain {
			return fwk.Queue, nil
		}
		var answer fwk.QueueingHint
		var err error
		call := framework.Call{Plugin: h.Plugin, Point: "QueueingHint"}
		left := s.callAsync(g, func(w *framework.CallWatch) {
			w.Watch(call, func() { answer, err = ask(logger, pod, oldObj, newObj) })
		}, func() { out.Add(-1) })
		if left == nil {
			return answer, err
		}
		out.Add(1)
		g.Framework.ReportCallTimeout(nil, call)
		return fwk.Queue, &framework.CallTimeoutError{Call: call}
	}
}

// askBeside asks g's plugins beside the caller, who holds a reference. It returns
// nil when they have answered; else they are left behind, and returned is called
// when they are back. Of what they say then nothing counts.
func (s *Set) callAsync(g *Generation, ask func(*framework.CallWatch), returned func()) *framework.AbandonedAttempt {
	watch, done, counted := framework.NewCallWatch(s.options.Clock), make(chan struct{}), make(chan struct{})
	var back func()
	g.Retain()
	s.options.Go(func() {
		defer close(done)
		defer g.Release()
		defer func() {
			if watch.End() {
				<-counted
				back()
				returned()
			}
		}()
		ask(watch)
	})
	left := watch.Await(framework.Waiter{Wait: s.options.Wait, Clock: s.options.Clock}, done)
	if left != nil {
		back = s.RecordAbandonedCall(g.Framework, left.Call)
		close(counted)
	}
	return left
}
