package profile

import (
	"context"
	"errors"

	"github.com/berthdev/berth/scheduler/framework"
)

// sortBroke has the pods of a profile ordered anew whose QueueSort plugin
// panicked or hangs: by PrioritySort, among those of all profiles that sort by
// it, until the next Generation. What runs goes on otherwise.
func (s *Set) sortBroke(name string, err *framework.SortError) {
	s.options.Log.Error(err, "The profile's pods are in the order of PrioritySort instead", "profile", name)
	s.mu.Lock()
	slot := s.slots[name]
	s.mu.Unlock()
	if slot == nil {
		return
	}
	slot.changing.Lock()
	defer slot.changing.Unlock()
	s.mu.Lock()
	current, paused := slot.current, slot.paused
	s.mu.Unlock()
	if current == nil || current.Framework.BrokenSort() == nil {
		return // another one sorts by now
	}
	s.leaveSort(current, err)
	s.options.Waiting.Adopt(context.Background(), name, current.rules(s.hold(slot, name), paused))
	s.ails(name)
}

// leaveSort counts a call of the QueueSort plugin that has not come back, and
// keeps g open until it has.
func (s *Set) leaveSort(g *Generation, err *framework.SortError) {
	var late *framework.LateError
	if !errors.As(err, &late) || !g.retain() {
		return
	}
	back := s.Late(g.Framework, late.Call)
	s.options.Go(func() {
		defer g.Release()
		_ = s.options.Wait(context.Background(), err.Back)
		back()
	})
}
