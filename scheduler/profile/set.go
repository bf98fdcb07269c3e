package profile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/queue"
)

// Waiting is who must hear that a profile changed: the pods that wait for it.
type Waiting interface {
	// Adopt makes rules those of the profile, whose pods are looked for.
	Adopt(ctx context.Context, profile string, rules *queue.Rules)
	// Abandon holds the profile's pods for the given reason.
	Abandon(ctx context.Context, profile string, hold queue.Hold)
}

// Set maps profile names to the Generations that run. It is safe for
// concurrent use.
type Set struct {
	options Options

	mu    sync.Mutex
	slots map[string]*slot
}

// Options are what a Set is built from.
type Options struct {
	Registry framework.Registry
	// HostFor is what the plugins of the profile called name are lent.
	HostFor func(name string) framework.Host
	Waiting Waiting
	// Unsupported names the field of a pod that this build cannot honour, and
	// says why; empty when it can honour all.
	Unsupported func(pod *v1.Pod) (field, why string)
	Clock       clock.PassiveClock
	Log         logr.Logger
}

// slot is what the Set knows of one name. changing serialises changes; the
// rest is guarded by the Set's lock.
type slot struct {
	changing sync.Mutex
	current  *Generation
	since    time.Time
	paused   bool
}

// NewSet returns a Set that runs nothing.
func NewSet(o Options) *Set { return &Set{options: o, slots: map[string]*slot{}} }

// Apply makes blueprint what runs under its name: it is built, the pointer is
// swapped, the waiting pods are told, and what ran before is let go of. The
// same hash changes nothing but the generation that Running reports. A build
// that fails changes nothing at all and returns a *BuildError.
func (s *Set) Apply(ctx context.Context, blueprint *compile.Blueprint) error {
	slot := s.change(blueprint.Name)
	defer slot.changing.Unlock()
	log := s.options.Log.WithValues("profile", blueprint.Name, "hash", blueprint.Hash, "generation", blueprint.Generation)

	if s.renumber(slot, blueprint) {
		return nil
	}
	next, err := build(blueprint, s.options.Registry, s.options.HostFor(blueprint.Name))
	if err != nil {
		log.Error(err, "The profile could not be built; what runs keeps running")
		return err
	}
	s.mu.Lock()
	previous := slot.current
	slot.current, slot.since = next, s.options.Clock.Now()
	s.mu.Unlock()
	s.options.Waiting.Adopt(ctx, blueprint.Name, next.rules(s.hold(slot, blueprint.Name)))
	if previous == nil {
		log.Info("The profile runs")
		return nil
	}
	log.Info("The profile was swapped", "previousHash", previous.Blueprint().Hash, "previousGeneration", previous.Blueprint().Generation)
	previous.Release()
	return nil
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

// Pause holds the pods of the profile, or lets them go on. What runs is kept.
func (s *Set) Pause(name string, paused bool) {
	slot := s.change(name)
	defer slot.changing.Unlock()
	s.mu.Lock()
	changed := slot.paused != paused
	slot.paused = paused
	current := slot.current
	s.mu.Unlock()
	if changed && current != nil {
		s.options.Log.Info("The profile's state changed", "profile", name, "paused", paused)
		s.options.Waiting.Adopt(context.Background(), name, current.rules(s.hold(slot, name)))
	}
}

// Delete stops serving the name: its pods are parked until a profile of that
// name comes back.
func (s *Set) Delete(name string) {
	slot := s.change(name)
	defer slot.changing.Unlock()
	// The slot goes last: who comes for the same name waits until all is done.
	defer s.drop(name)
	s.mu.Lock()
	current := slot.current
	slot.current = nil
	s.mu.Unlock()
	if current == nil {
		return
	}
	s.options.Waiting.Abandon(context.Background(), name, queue.Hold{
		Reason:  queue.ProfileDeleted,
		Message: fmt.Sprintf("SchedulingProfile %s was deleted: the pod waits until a profile of that name exists", name),
	})
	current.Release()
	framework.ForgetProfile(name)
	s.options.Log.Info("The profile is gone; its pods are parked", "profile", name)
}

// Running says what runs under a name.
func (s *Set) Running(name string) (Running, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot, ok := s.slots[name]
	if !ok || slot.current == nil {
		return Running{}, false
	}
	return Running{Blueprint: slot.current.Blueprint(), Since: slot.since}, true
}

// Acquire returns the Generation that runs under a name with one more
// reference, which the caller releases. It reports false when none runs.
func (s *Set) Acquire(name string) (*Generation, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot, ok := s.slots[name]
	if !ok || slot.current == nil || slot.paused || !slot.current.retain() {
		return nil, false
	}
	return slot.current, true
}

// change returns the slot of a name, made if need be, with its changes locked.
func (s *Set) change(name string) *slot {
	for {
		s.mu.Lock()
		if s.slots[name] == nil {
			s.slots[name] = &slot{}
		}
		mine := s.slots[name]
		s.mu.Unlock()
		mine.changing.Lock()
		s.mu.Lock()
		current := s.slots[name] == mine
		s.mu.Unlock()
		if current {
			return mine
		}
		mine.changing.Unlock() // it was dropped while we waited
	}
}

func (s *Set) drop(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.slots, name)
}

// hold says why a pod of the profile must not be tried.
func (s *Set) hold(slot *slot, name string) func(*v1.Pod) queue.Hold {
	return func(pod *v1.Pod) queue.Hold {
		s.mu.Lock()
		paused := slot.paused
		s.mu.Unlock()
		if paused {
			return queue.Hold{
				Reason:  queue.ProfilePaused,
				Message: fmt.Sprintf("SchedulingProfile %s is paused: the pod waits until its spec.state is Active", name),
			}
		}
		if field, why := s.options.Unsupported(pod); field != "" {
			return queue.Hold{Reason: queue.Unsupported, Message: field + ": " + why}
		}
		return queue.Hold{}
	}
}

func asBuildError(err error) error {
	var plugin *framework.PluginError
	if errors.As(err, &plugin) {
		return &BuildError{Plugin: plugin.Plugin, Err: plugin.Err}
	}
	return &BuildError{Err: err}
}
