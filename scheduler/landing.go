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
type oversight struct {
	*Scheduler
	*turn
	landing *framework.Landing

	mu    sync.Mutex
	ended bool
	// back says that the late call, if there is one, counts no more.
	back func()
	stop func() bool
}

// oversee looks after t until end is called.
func (s *Scheduler) oversee(ctx context.Context, t *turn) (end func()) {
	if !t.generation.Framework.Watched() || fault.HangsUnseen {
		return func() {}
	}
	o := &oversight{Scheduler: s, turn: t, landing: framework.NewLanding(s.options.Clock)}
	t.state.Lands(o.landing)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lookIn(ctx, framework.CallLimit)
	return o.end
}

// lookIn has look called when a call may be late. Called with the lock.
func (o *oversight) lookIn(ctx context.Context, again time.Duration) {
	o.stop = o.options.Clock.AfterFunc(again, func() { o.options.Go(func() { o.look(ctx) }) }).Stop
}

func (o *oversight) look(ctx context.Context) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return
	}
	call, again := o.landing.Overdue()
	if call == nil {
		o.lookIn(ctx, again)
		return
	}
	late, f := &framework.LateError{Call: *call}, o.generation.Framework
	klog.FromContext(ctx).Error(late, "The pod is held up by the plugin", "node", o.flight.Node)
	o.back = o.profiles.Late(f, *call)
	f.Late(o.Pod, *call)
	if call.Point == "PreBind" || call.Point == "PreBindPreFlight" {
		// After that the pod may be bound already, and its status tell so.
		o.binding.Refuse(o.Pod, v1.PodReasonSchedulerError, late.Error(), nil)
	}
}

func (o *oversight) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	o.stop()
	if o.back != nil {
		o.back()
	}
}
