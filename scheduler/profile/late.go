package profile

import (
	"context"
	"fmt"

	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// maxLate bounds the calls of one profile's plugins that nobody waits for any
// more and that have not come back.
const maxLate = 16

// LateError says that so many calls of a profile's plugins have not come back
// that no more are made.
type LateError struct {
	// Last is the one that was given up last.
	Last framework.Call
	// Calls is how many there are.
	Calls int
}

func (e *LateError) Error() string {
	return fmt.Sprintf("%d calls of the profile's plugins have not come back, the last of plugin %q from %s: "+
		"no pod is tried until one does, or Berth is restarted", e.Calls, e.Last.Plugin, e.Last.Point)
}

// lateCalls are the calls of one profile's plugins that have not come back.
type lateCalls struct {
	calls int
	last  framework.Call
}

// Crowded is a *LateError while too many calls of the plugins of the profile
// called name have not come back.
func (s *Set) Crowded(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if late := s.late[name]; late.calls >= maxLate {
		return &LateError{Last: late.last, Calls: late.calls}
	}
	return nil
}

// Late counts a call of f's plugins that nobody waits for any more, until back is
// called.
func (s *Set) Late(f *framework.Framework, call framework.Call) (back func()) {
	f.Owe(1)
	s.count(f.ProfileName(), call, 1)
	return func() {
		s.count(f.ProfileName(), framework.Call{}, -1)
		f.Owe(-1)
	}
}

func (s *Set) count(name string, call framework.Call, by int) {
	if fault.LateUncounted {
		return
	}
	s.mu.Lock()
	late := s.late[name]
	before := late.calls
	if late.calls += by; by > 0 {
		late.last = call
	}
	if s.late[name] = late; late.calls == 0 {
		delete(s.late, name)
	}
	s.mu.Unlock()
	s.ails(name)
	if (before >= maxLate) != (late.calls >= maxLate) {
		s.options.Go(func() { s.options.Waiting.Reconsider(context.Background(), name, "") })
	}
}

// WhenAilmentsChange has tell called, without a lock, with the name of a
// profile of which Running has other Ailments.
func (s *Set) WhenAilmentsChange(tell func(name string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onAilment = tell
}

func (s *Set) ails(name string) {
	s.mu.Lock()
	tell := s.onAilment
	s.mu.Unlock()
	if tell != nil {
		tell(name)
	}
}

// ailments says what is wrong with what runs. Called with the lock.
func (s *Set) ailments(name string, g *Generation) (all []string) {
	if broken := g.Framework.BrokenSort(); broken != nil {
		all = append(all, broken.Error()+": its pods are in the order of PrioritySort instead")
	}
	switch late := s.late[name]; {
	case late.calls >= maxLate:
		all = append(all, (&LateError{late.last, late.calls}).Error())
	case late.calls > 0:
		all = append(all, fmt.Sprintf("%d of at most %d calls of its plugins have not come back, the last of plugin %q from %s",
			late.calls, maxLate, late.last.Plugin, late.last.Point))
	}
	return all
}
