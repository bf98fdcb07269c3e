package profile

import (
	"context"
	"errors"

	"github.com/berthdev/berth/scheduler/framework"
)

// sortBroke has the pods of a profile ordered anew whose QueueSort plugin
// panicked or hangs: by PrioritySort, among those of all profiles that sort by
// it, until the next Generation. What runs goes on otherwise.
func (s *Set) handleSortFailure(name string, err *framework.QueueSortError) {
	s.options.Log.Error(err, "The profile's pods are in the order of PrioritySort instead", "profile", name)
	s.mu.Lock()
	slot := s.profiles[name]
	s.mu.Unlock()
	if slot == nil {
		return
	}
	slot.changeMu.Lock()
	defer slot.changeMu.Unlock()
	s.mu.Lock()
	current, paused := slot.current, slot.paused
	s.mu.Unlock()
	if current == nil || current.Framework.QueueSortFault() == nil {
		return // another one sorts by now
	}
	s.recordAbandonedSort(current, err)
	s.options.Queue.SetProfile(context.Background(), name, current.queueRules(s.holdFunc(slot, name), paused))
	s.notifyDegradationChange(name)
}

// leaveSort counts a call of the QueueSort plugin that has not come back, and
// keeps g open until it has.
func (s *Set) recordAbandonedSort(g *Generation, err *framework.QueueSortError) {
	var late *framework.CallTimeoutError
	if !errors.As(err, &late) || !g.retain() {
		return
	}
	back := s.RecordAbandonedCall(g.Framework, late.Call)
	s.options.Go(func() {
		defer g.Release()
		_ = s.options.Wait(context.Background(), err.Returned)
		back()
	})
}
