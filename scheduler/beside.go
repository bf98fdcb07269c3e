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
var errLeft = fmt.Errorf("the plugin took longer than %v", framework.CallLimit)

// placeBeside is place for a turn that the loop may have to leave behind. It
// reports false when it did: the turn is settled then, or settles itself.
func (s *Scheduler) placeBeside(ctx context.Context, t *turn, snapshot *cache.Snapshot) (err error, here bool) {
	if err := s.profiles.Crowded(t.generation.Blueprint().Name); err != nil {
		return err, true
	}
	b := &beside{
		Scheduler: s, turn: t, watch: framework.NewWatch(s.options.Clock), cycle: s.cycle,
		done: make(chan struct{}), counted: make(chan struct{}),
	}
	own, cancel := context.WithCancelCause(ctx)
	t.end = cancel
	t.state.Watch(b.watch)
	t.beat.watch.Store(b.watch)
	t.generation.Retain()
	s.options.Go(func() { b.run(own, snapshot) })
	left := b.watch.Await(framework.Waiting{Wait: s.options.Wait, Clock: s.options.Clock}, b.done)
	if left == nil {
		s.cycle = b.cycle
		return b.err, true
	}
	s.leave(ctx, b, left)
	return nil, false
}

// beside is an attempt beside the loop.
type beside struct {
	*Scheduler
	*turn
	watch *framework.Watch
	cycle cycle.Cycle
	err   error
	// done is closed when the attempt is over, counted when the loop has left it
	// and said what back says again.
	done, counted chan struct{}
	back          func()
}

// run is the attempt. When it was left behind meanwhile it comes back here only
// if the pod has been assumed: it is settled then as any other flight.
func (b *beside) run(ctx context.Context, snapshot *cache.Snapshot) {
	ended := false
	defer close(b.done)
	defer b.generation.Release()
	defer func() {
		if !ended && b.watch.End() { // by the plugin's late return
			<-b.counted
			b.back()
		}
	}()
	b.err = b.place(ctx, b.turn, snapshot, &b.cycle)
	ended = true
	if !b.watch.End() {
		return
	}
	<-b.counted
	b.back()
	defer b.flights.Done()
	defer b.release(b.turn)
	if b.err == nil {
		b.land(ctx, b.turn)
		return
	}
	if b.flight != nil {
		b.freed(ctx, b.turn, b.err)
	}
	b.refuse(ctx, b.turn, b.err)
}

// leave goes on without an attempt. What its plugin still sees is left to it.
func (s *Scheduler) leave(ctx context.Context, b *beside, left *framework.Left) {
	late := &framework.LateError{Call: left.Call}
	logger, t := klog.FromContext(ctx), b.turn
	logger.Error(late, "Going on without the plugin", "beside", left.Beside)
	b.back = s.profiles.Late(t.generation.Framework, left.Call)
	if !fault.LateShown {
		s.cache.Part()
	}
	if left.Beside {
		// The pod keeps its room, and its turn: the flight is under way, only that
		// the plugin has not let it go yet.
		s.cycle = b.cycle
		s.flights.Add(1)
		if left.Point != "Permit" {
			t.generation.Framework.Late(t.Pod, left.Call)
			s.binding.Refuse(t.Pod, v1.PodReasonSchedulerError, late.Error(), nil)
		}
		close(b.counted)
		return
	}
	if t.generation.Memo != nil {
		t.generation.Memo.Close()
		t.generation.Memo = s.caches.NewMemo(t.generation.Framework)
	}
	t.generation.Framework.Late(t.Pod, left.Call)
	close(b.counted)
	t.end(errLeft)
	again := &turn{Attempt: t.Attempt, generation: t.generation, begin: t.begin, span: t.span, nominate: nominateNone}
	s.refuse(ctx, again, late)
	s.release(again)
}
