package profile

import (
	"context"

	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/fault"
)

// maxOld bounds the Generations of one name that finish what they began while
// a newer one serves it.
const maxOldGenerations = 8

// Apply makes blueprint what runs under its name: it is built, the pointer is
// swapped, the waiting pods are told, and what ran before is let go of. The
// same hash changes nothing but the generation that Running reports. Of changes
// that come while another one is under way the newest alone is made. A change
// that fails changes nothing at all: the error is a *BuildError, or
// ErrOvertaken or ErrCrowded, after which a later call may end better.
func (s *Set) Apply(ctx context.Context, blueprint *compile.Blueprint) error {
	slot := s.beginChange(blueprint)
	defer s.endChange(slot, blueprint)
	log := s.options.Log.WithValues("profile", blueprint.Name, "hash", blueprint.Hash, "generation", blueprint.Generation)

	if s.updateGeneration(slot, blueprint) {
		return nil
	}
	if err := s.checkChange(slot, blueprint); err != nil {
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
	slot.current, slot.since, slot.heldReason = next, s.options.Clock.Now(), ""
	if previous != nil {
		s.oldGenerations[blueprint.Name]++
	}
	s.mu.Unlock()
	if previous != nil {
		previous.dropEquivalenceCache()
	}
	if previous == nil || !fault.NaiveSwap {
		s.options.Queue.SetProfile(ctx, blueprint.Name, next.queueRules(s.holdFunc(slot, blueprint.Name), paused))
	}
	if previous == nil {
		log.Info("The profile runs")
		return nil
	}
	log.Info("The profile was swapped", "previousHash", previous.Blueprint().Hash, "previousGeneration", previous.Blueprint().Generation)
	if fault.OldClosedUnderBind || fault.NaiveSwap {
		previous.teardown()
		return nil
	}
	previous.Release()
	return nil
}

// enter waits for the changes of the blueprint's name that are under way.
func (s *Set) beginChange(blueprint *compile.Blueprint) *profileState {
	s.mu.Lock()
	s.pending[blueprint.Name] = blueprint
	s.mu.Unlock()
	return s.lockProfile(blueprint.Name)
}

// leave lets the next change of the name begin.
func (s *Set) endChange(slot *profileState, blueprint *compile.Blueprint) {
	s.mu.Lock()
	if s.pending[blueprint.Name] == blueprint {
		delete(s.pending, blueprint.Name)
	}
	s.mu.Unlock()
	slot.changeMu.Unlock()
}

// mayChange says whether blueprint may be built now.
func (s *Set) checkChange(slot *profileState, blueprint *compile.Blueprint) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.pending[blueprint.Name] != blueprint:
		return ErrSuperseded
	case slot.current != nil && s.oldGenerations[blueprint.Name] >= maxOldGenerations:
		return ErrTooManyGenerations
	}
	return nil
}

// ended notes that a Generation of a name is closed that served it before.
func (s *Set) generationClosed(name string) {
	s.mu.Lock()
	if s.oldGenerations[name]--; s.oldGenerations[name] == 0 {
		delete(s.oldGenerations, name)
	}
	s.mu.Unlock()
	s.forget(name)
}

// forget tells of a name of which nothing is left. Builds that failed have left
// something, too.
func (s *Set) forget(name string) {
	s.mu.Lock()
	_, served := s.profiles[name]
	forgotten := !served && s.oldGenerations[name] == 0
	s.mu.Unlock()
	if forgotten && s.options.Forget != nil {
		s.options.Forget(name)
	}
}

// renumber handles a blueprint whose hash runs already: only the generation
// numbers of the profile and its PluginConfigs may have moved.
func (s *Set) updateGeneration(slot *profileState, blueprint *compile.Blueprint) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slot.current == nil || slot.current.Blueprint().Hash != blueprint.Hash {
		return false
	}
	slot.current.blueprint.Store(blueprint)
	return true
}
