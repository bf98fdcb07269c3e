package profile

import (
	"context"
	"errors"
	"fmt"

	"github.com/berthdev/berth/scheduler/compile"
)

// maxOldGenerations bounds the replaced Generations of one profile that still have pods to
// bind.
const maxOldGenerations = 8

// ErrSuperseded says that a change was not applied because a newer change of the same
// profile came while it waited.
var ErrSuperseded = errors.New("superseded by a newer change of the profile")

// ErrTooManyGenerations says that a change has to wait because too many replaced Generations
// of the profile still have pods to bind.
var ErrTooManyGenerations = fmt.Errorf("%d older generations of the profile still have pods to bind; the newest change is applied when one of them is done", maxOldGenerations)

// Apply builds the Blueprint and makes it the current Generation of its name: it swaps the
// pointer, gives the queue the new rules and releases the previous Generation. If the same
// hash already runs, only the generation number that Running reports changes. Changes of
// one name are applied one at a time; of several that wait only the newest is applied.
// After an error the previous Generation still runs. The error is a *BuildError, or
// ErrSuperseded or ErrTooManyGenerations, after which a later call may succeed.
func (s *Set) Apply(ctx context.Context, blueprint *compile.Blueprint) error {
	state := s.beginChange(blueprint)
	defer s.endChange(state, blueprint)
	log := s.options.Log.WithValues("profile", blueprint.Name, "hash", blueprint.Hash, "generation", blueprint.Generation)

	if s.updateGeneration(state, blueprint) {
		return nil
	}
	if err := s.checkChange(state, blueprint); err != nil {
		return err
	}
	next, err := s.build(ctx, blueprint)
	if err != nil {
		log.Error(err, "The profile could not be built; the previous generation keeps running")
		return err
	}
	s.mu.Lock()
	previous, paused := state.current, state.paused
	state.current, state.since, state.heldReason = next, s.options.Clock.Now(), ""
	if previous != nil {
		s.oldGenerations[blueprint.Name]++
	}
	s.mu.Unlock()
	if previous != nil {
		previous.dropEquivalenceCache()
	}
	s.options.Queue.SetProfile(ctx, blueprint.Name, next.queueRules(s.holdFunc(state, blueprint.Name), paused))
	if s.options.Applied != nil {
		s.options.Applied(next)
	}
	if previous == nil {
		log.Info("The profile runs")
		return nil
	}
	log.Info("The profile was swapped", "previousHash", previous.Blueprint().Hash, "previousGeneration", previous.Blueprint().Generation)
	previous.Release()
	return nil
}

// beginChange waits until no other change of the blueprint's name is in progress, and
// returns the locked state.
func (s *Set) beginChange(blueprint *compile.Blueprint) *profileState {
	s.mu.Lock()
	s.pending[blueprint.Name] = blueprint
	s.mu.Unlock()
	return s.lockProfile(blueprint.Name)
}

// endChange ends the change that beginChange began.
func (s *Set) endChange(state *profileState, blueprint *compile.Blueprint) {
	s.mu.Lock()
	if s.pending[blueprint.Name] == blueprint {
		delete(s.pending, blueprint.Name)
	}
	s.mu.Unlock()
	state.changeMu.Unlock()
}

// checkChange returns an error if the blueprint must not be built now.
func (s *Set) checkChange(state *profileState, blueprint *compile.Blueprint) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.pending[blueprint.Name] != blueprint:
		return ErrSuperseded
	case s.hasTooManyGenerations(state, blueprint.Name):
		return ErrTooManyGenerations
	}
	return nil
}

// hasTooManyGenerations reports whether a change of name has to wait. s.mu must be held.
func (s *Set) hasTooManyGenerations(state *profileState, name string) bool {
	return state.current != nil && s.oldGenerations[name] >= maxOldGenerations
}

// CheckPlace returns ErrTooManyGenerations if a Blueprint that does not run could neither be
// tried nor applied now.
func (s *Set) CheckPlace(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state, ok := s.profiles[name]; ok && s.hasTooManyGenerations(state, name) {
		return ErrTooManyGenerations
	}
	return nil
}

// generationClosed records that a replaced Generation of name was closed.
func (s *Set) generationClosed(name string) {
	s.mu.Lock()
	if s.oldGenerations[name]--; s.oldGenerations[name] == 0 {
		delete(s.oldGenerations, name)
	}
	s.mu.Unlock()
	s.forget(name)
}

// forget calls Options.Forget if nothing is left of name. A failed build of name may have
// left metric series, too. No profile of that name begins meanwhile: it would keep the
// series that are deleted.
func (s *Set) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, exists := s.profiles[name]; !exists && s.oldGenerations[name] == 0 && s.options.Forget != nil {
		s.options.Forget(name)
	}
}

// updateGeneration handles a blueprint whose hash already runs: only the generation numbers
// of the profile and its PluginConfigs may have changed. It reports whether it did.
func (s *Set) updateGeneration(state *profileState, blueprint *compile.Blueprint) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state.current == nil || state.current.Blueprint().Hash != blueprint.Hash {
		return false
	}
	state.current.blueprint.Store(blueprint)
	return true
}
