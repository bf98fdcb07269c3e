package scheduler

import (
	"context"
	"errors"
	"time"

	"github.com/berthdev/berth/scheduler/fault"
)

// undoing is how long bindings have for taking back what they did.
const undoing = time.Second

// errEnding is why a pod does not wait at Permit any longer.
var errEnding = errors.New("the scheduler is ending: the pod is tried by whoever leads next")

// finish comes when the last pod was popped. What is on its way to a node gets
// there, or is taken back; who waits at Permit may do so for long, and is given
// back at once, to be tried by the next leader. What the API server is to be told
// of the pods' state is told. All of that lasts no longer than s.life, or as long
// as taking back takes where nothing is to be finished.
func (s *Scheduler) finish() {
	if s.options.Grace == nil {
		s.flights.Wait() // they ended with the loop's context
		s.options.Log.Info("Scheduling ended")
		return
	}
	if !fault.WaitersHoldUpTheEnd {
		s.waiting.End(errEnding)
	}
	over := make(chan struct{})
	s.options.Go(func() {
		s.flights.Wait()
		close(over)
	})
	if s.options.Wait(s.life, over) != nil {
		s.takeBack(over)
	}
	if s.options.Wait(s.life, s.binding.Told()) != nil {
		s.options.Log.Info("Scheduling ends before all was told in the status of pods")
	}
	s.options.Log.Info("Scheduling ended")
}

// takeBack lets bindings whose time is over undo what they did. A plugin that
// does not come back keeps nobody.
func (s *Scheduler) takeBack(over <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer s.options.Clock.AfterFunc(undoing, cancel).Stop()
	if s.options.Wait(ctx, over) != nil {
		s.options.Log.Error(nil, "Scheduling ends with bindings under way: a plugin or the API server does not come back")
	}
}
