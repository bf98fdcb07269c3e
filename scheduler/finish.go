package scheduler

import (
	"context"
	"errors"
	"time"

	"github.com/berthdev/berth/scheduler/fault"
)

// undoing is how long bindings have for taking back what they did.
const undoTimeout = time.Second

// errEnding is why a pod does not wait at Permit any longer.
var errShuttingDown = errors.New("the scheduler is ending: the pod is tried by whoever leads next")

// finish comes when the last pod was popped. What is on its way to a node gets
// there, or is taken back; who waits at Permit may do so for long, and is given
// back at once, to be tried by the next leader. What the API server is to be told
// of the pods' state is told. All of that lasts no longer than s.life, or as long
// as taking back takes where nothing is to be finished.
func (s *Scheduler) shutDown() {
	if s.options.ShutdownContext == nil {
		s.inFlight.Wait() // they ended with the loop's context
		s.options.Log.Info("Scheduling ended")
		return
	}
	if !fault.WaitersHoldUpTheEnd {
		s.waitingPods.Stop(errShuttingDown)
	}
	over := make(chan struct{})
	s.options.Go(func() {
		s.inFlight.Wait()
		close(over)
	})
	if s.options.Wait(s.bindingContext, over) != nil {
		s.undoBindings(over)
	}
	if s.options.Wait(s.bindingContext, s.binding.StatusFlushed()) != nil {
		s.options.Log.Info("Scheduling ends before all was told in the status of pods")
	}
	s.options.Log.Info("Scheduling ended")
}

// takeBack lets bindings whose time is over undo what they did. A plugin that
// does not come back keeps nobody.
func (s *Scheduler) undoBindings(over <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer s.options.Clock.AfterFunc(undoTimeout, cancel).Stop()
	if s.options.Wait(ctx, over) != nil {
		s.options.Log.Error(nil, "Scheduling ends with bindings under way: a plugin or the API server does not come back")
	}
}
