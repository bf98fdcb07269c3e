package scheduler

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// oversight looks after a pod on its way to its node, where plugins are called
// that are not built in: one that does not come back holds up its pod for as long
// as it likes, and counts among its profile's late calls meanwhile.
type bindingMonitor struct {
	*Scheduler
	*schedulingCycle
	calls *framework.BindingCalls

	mu    sync.Mutex
	ended bool
	// back says that the late call, if there is one, counts no more. It is called
	// once: by end, or by look when end came first.
	recovered func()
	stop      func() bool
}

// oversee looks after t until end is called.
func (s *Scheduler) monitorBinding(ctx context.Context, t *schedulingCycle) (end func()) {
	if !t.generation.Framework.HasOutOfTreePlugins() || fault.HangsUnseen {
		return func() {}
	}
	o := &bindingMonitor{Scheduler: s, schedulingCycle: t, calls: framework.NewBindingCalls(s.options.Clock)}
	t.state.SetBindingCalls(o.calls)
	o.scheduleCheck(ctx, framework.CallTimeout)
	return o.end
}

// lookIn has look called when a call may be late, unless the pod has landed.
func (o *bindingMonitor) scheduleCheck(ctx context.Context, again time.Duration) {
	timer := o.options.Clock.AfterFunc(again, func() { o.options.Go(func() { o.check(ctx) }) })
	o.mu.Lock()
	ended := o.ended
	o.stop = timer.Stop
	o.mu.Unlock()
	if ended {
		timer.Stop()
	}
}

// look reports a call that is late. It holds no lock while it calls others, who
// may wait for the pod to land. When the pod lands meanwhile, the report is taken
// back at once; the status that was written then names a version of the pod that
// is not the newest, and is dropped where the pod has a node.
func (o *bindingMonitor) check(ctx context.Context) {
	if o.isEnded() {
		return
	}
	call, again := o.calls.Overdue()
	if call == nil {
		o.scheduleCheck(ctx, again)
		return
	}
	if fault.LandingLocked {
		o.mu.Lock()
		defer o.mu.Unlock()
	}
	late, f := &framework.CallTimeoutError{Call: *call}, o.generation.Framework
	klog.FromContext(ctx).Error(late, "The pod is held up by the plugin", "node", o.flight.Node)
	if call.Point == "PreBind" || call.Point == "PreBindPreFlight" {
		// After that the pod may be bound already, and its status tell so.
		o.binding.SetNotScheduled(o.Pod, v1.PodReasonSchedulerError, late.Error(), nil)
	}
	f.ReportCallTimeout(o.Pod, *call)
	back := o.profiles.RecordAbandonedCall(f, *call)
	if fault.LandingLocked {
		o.recovered = back
		return
	}
	o.mu.Lock()
	ended := o.ended
	o.recovered = back
	o.mu.Unlock()
	if ended {
		back()
	}
}

// over says whether the pod has landed, or its attempt has failed.
func (o *bindingMonitor) isEnded() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ended
}

// end ends the oversight, and takes a report of a late call back.
func (o *bindingMonitor) end() {
	o.mu.Lock()
	o.ended = true
	stop, back := o.stop, o.recovered
	o.mu.Unlock()
	stop()
	if back != nil {
		back()
	}
}
