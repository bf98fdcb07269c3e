package profile

import (
	"context"

	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/fault"
)

// maxOld bounds the Generations of one name that finish what they began while
// a newer one serves it.
const maxOld = 8

// Apply makes blueprint what runs under its name: it is built, the pointer is
// swapped, the waiting pods are told, and what ran before is let go of. The
// same hash changes nothing but the generation that Running reports. Of changes
// that come while another one is under way the newest alone is made. A change
// that fails changes nothing at all: the error is a *BuildError, or
// ErrOvertaken or ErrCrowded, after which a later call may end better.
func (s *Set) Apply(ctx context.Context, blueprint *compile.Blueprint) error {
	slot := s.enter(blueprint)
	defer s.leave(slot, blueprint)
	log := s.options.Log.WithValues("profile", blueprint.Name, "hash", blueprint.Hash, "generation", blueprint.Generation)

	if s.renumber(slot, blueprint) {
		return nil
	}
	if err := s.mayChange(slot, blueprint); err != nil {
		return err
	}
	next, err := s.build(ctx, blueprint)
	if err != nil {
		if fault.FailedBuildOverwrites {
			slot.current = nil
		}
		log.Error(err, "The profile could not be built; what runs keeps running")
		return err
	}
	s.mu.Lock()
	previous, paused := slot.current, slot.paused
	slot.current, slot.since, slot.withheld = next, s.options.Clock.Now(), ""
	if previous != nil {
		s.old[blueprint.Name]++
	}
	s.mu.Unlock()
	if previous != nil {
		previous.letGo()
	}
	if previous == nil || !fault.NaiveSwap {
		s.options.Waiting.Adopt(ctx, blueprint.Name, next.rules(s.hold(slot, blueprint.Name), paused))
	}
	if previous == nil {
		log.Info("The profile runs")
		return nil
	}
	log.Info("The profile was swapped", "previousHash", previous.Blueprint().Hash, "previousGeneration", previous.Blueprint().Generation)
	if fault.OldClosedUnderBind || fault.NaiveSwap {
		previous.end()
		return nil
	}
	previous.Release()
	return nil
}

// enter waits for the changes of the blueprint's name that are under way.
func (s *Set) enter(blueprint *compile.Blueprint) *slot {
	s.mu.Lock()
	s.wanted[blueprint.Name] = blueprint
	s.mu.Unlock()
	return s.change(blueprint.Name)
}

// leave lets the next change of the name begin.
func (s *Set) leave(slot *slot, blueprint *compile.Blueprint) {
	s.mu.Lock()
	if s.wanted[blueprint.Name] == blueprint {
		delete(s.wanted, blueprint.Name)
	}
	s.mu.Unlock()
	slot.changing.Unlock()
}

// mayChange says whether blueprint may be built now.
func (s *Set) mayChange(slot *slot, blueprint *compile.Blueprint) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.wanted[blueprint.Name] != blueprint:
		return ErrOvertaken
	case slot.current != nil && s.old[blueprint.Name] >= maxOld:
		return ErrCrowded
	}
	return nil
}

// ended notes that a Generation of a name is closed that served it before.
func (s *Set) ended(name string) {
	s.mu.Lock()
	if s.old[name]--; s.old[name] == 0 {
		delete(s.old, name)
	}
	s.mu.Unlock()
	s.forget(name)
}

// forget tells of a name of which nothing is left. Builds that failed have left
// something, too.
func (s *Set) forget(name string) {
	s.mu.Lock()
	_, served := s.slots[name]
	forgotten := !served && s.old[name] == 0
	s.mu.Unlock()
	if forgotten && s.options.Forget != nil {
		s.options.Forget(name)
	}
}

// renumber handles a blueprint whose hash runs already: only the generation
// numbers of the profile and its PluginConfigs may have moved.
func (s *Set) renumber(slot *slot, blueprint *compile.Blueprint) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slot.current == nil || slot.current.Blueprint().Hash != blueprint.Hash {
		return false
	}
	slot.current.blueprint.Store(blueprint)
	return true
}
