package profile

import (
	"maps"
	"slices"
	"time"

	"github.com/berthdev/berth/scheduler/compile"
)

// Alive is what a Set has of one name.
type Status struct {
	Name string
	// Blueprint is what runs, since then; nil: nothing does.
	Blueprint *compile.Blueprint
	Since     time.Time
	Paused    bool
	// References is how many hold the Generation that runs, the Set included.
	References int
	// Old is how many Generations finish what they began while another one serves
	// the name.
	OldGenerations int
	// Wanted is the hash of a change that is being made, or waits; may be empty.
	PendingHash string
	// Late is how many calls of its plugins have not come back, Ailments say what
	// is wrong with them in whole sentences.
	AbandonedCalls int
	Degradations   []string
	// Generation is what runs, to be looked at and not to be used: nobody holds a
	// reference. nil: nothing does.
	Generation *Generation
}

// Inspect returns what the Set has of each name, in the order of names.
func (s *Set) Statuses() []Status {
	s.mu.Lock()
	names := map[string]bool{}
	for _, known := range []map[string]bool{keySet(s.profiles), keySet(s.oldGenerations), keySet(s.pending), keySet(s.abandonedCalls)} {
		maps.Copy(names, known)
	}
	s.mu.Unlock()
	var all []Status
	for _, name := range slices.Sorted(maps.Keys(names)) {
		all = append(all, s.status(name))
	}
	return all
}

func keySet[V any](m map[string]V) map[string]bool {
	all := make(map[string]bool, len(m))
	for key := range m {
		all[key] = true
	}
	return all
}

func (s *Set) status(name string) Status {
	running, _ := s.Running(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	a := Status{Name: name, OldGenerations: s.oldGenerations[name], AbandonedCalls: s.abandonedCalls[name].calls, Degradations: running.Degradations}
	if wanted := s.pending[name]; wanted != nil {
		a.PendingHash = wanted.Hash
	}
	slot := s.profiles[name]
	if slot == nil {
		return a
	}
	if a.Paused = slot.paused; slot.current != nil {
		g := slot.current
		a.Blueprint, a.Since, a.Generation = g.Blueprint(), slot.since, g
		g.mu.Lock()
		a.References = g.refs
		g.mu.Unlock()
	}
	return a
}
