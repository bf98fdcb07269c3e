package profile

import (
	"context"
	"fmt"

	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// maxLate bounds the calls of one profile's plugins that nobody waits for any
// more and that have not come back.
const maxAbandonedCalls = 16

// LateError says that so many calls of a profile's plugins have not come back
// that no more are made.
type AbandonedCallsError struct {
	// Last is the one that was given up last.
	Last framework.Call
	// Calls is how many there are.
	Calls int
}

func (e *AbandonedCallsError) Error() string {
	return fmt.Sprintf("%d calls of the profile's plugins have not come back, the last of plugin %q from %s: "+
		"no pod is tried until one does, or Berth is restarted", e.Calls, e.Last.Plugin, e.Last.Point)
}

// lateCalls are the calls of one profile's plugins that have not come back.
type abandonedCalls struct {
	calls int
	last  framework.Call
}

// Crowded is a *LateError while too many calls of the plugins of the profile
// called name have not come back.
func (s *Set) TooManyAbandonedCalls(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if late := s.abandonedCalls[name]; late.calls >= maxAbandonedCalls {
		return &AbandonedCallsError{Last: late.last, Calls: late.calls}
	}
	return nil
}

// Late counts a call of f's plugins that nobody waits for any more, until back is
// called.
func (s *Set) RecordAbandonedCall(f *framework.Framework, call framework.Call) (back func()) {
	f.AddAbandonedCalls(1)
	s.addAbandonedCalls(f.ProfileName(), call, 1)
	return func() {
		s.addAbandonedCalls(f.ProfileName(), framework.Call{}, -1)
		f.AddAbandonedCalls(-1)
	}
}

func (s *Set) addAbandonedCalls(name string, call framework.Call, by int) {
	if fault.LateUncounted {
		return
	}
	s.mu.Lock()
	late := s.abandonedCalls[name]
	before := late.calls
	if late.calls += by; by > 0 {
		late.last = call
	}
	if s.abandonedCalls[name] = late; late.calls == 0 {
		delete(s.abandonedCalls, name)
	}
	s.mu.Unlock()
	s.notifyDegradationChange(name)
	if (before >= maxAbandonedCalls) != (late.calls >= maxAbandonedCalls) {
		s.options.Go(func() { s.options.Queue.RecheckHolds(context.Background(), name, "") })
	}
}

// WhenAilmentsChange has tell called, without a lock, with the name of a
// profile of which Running has other Ailments.
func (s *Set) OnDegradedChange(tell func(name string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onDegradationChange = tell
}

func (s *Set) notifyDegradationChange(name string) {
	s.mu.Lock()
	tell := s.onDegradationChange
	s.mu.Unlock()
	if tell != nil {
		tell(name)
	}
}

// ailments says what is wrong with what runs. Called with the lock.
func (s *Set) degradations(name string, g *Generation) (all []string) {
	if broken := g.Framework.QueueSortFault(); broken != nil {
		all = append(all, broken.Error()+": its pods are in the order of PrioritySort instead")
	}
	switch late := s.abandonedCalls[name]; {
	case late.calls >= maxAbandonedCalls:
		all = append(all, (&AbandonedCallsError{late.last, late.calls}).Error())
	case late.calls > 0:
		all = append(all, fmt.Sprintf("%d of at most %d calls of its plugins have not come back, the last of plugin %q from %s",
			late.calls, maxAbandonedCalls, late.last.Plugin, late.last.Point))
	}
	return all
}
