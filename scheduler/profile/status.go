package profile

import (
	"maps"
	"slices"
	"time"

	"github.com/berthdev/berth/scheduler/compile"
)

// Running is the Blueprint that runs under a name, since when, and how its plugins fare.
type Running struct {
	Blueprint *compile.Blueprint
	Since     time.Time
	// Degradations are what is wrong with its plugins.
	Degradations Degradations
}

// DegradationReason says in one word what is wrong with plugins. It is a reason of the
// profile's condition Degraded.
type DegradationReason string

const (
	// TooManyAbandonedCalls: so many calls of plugins have not returned that no pod is
	// scheduled.
	TooManyAbandonedCalls DegradationReason = "TooManyAbandonedCalls"
	// QueueSortReplaced: the QueueSort plugin panicked or hung, and PrioritySort sorts in
	// its place.
	QueueSortReplaced DegradationReason = "QueueSortReplaced"
	// PluginHangs: calls of plugins were abandoned and have not returned.
	PluginHangs DegradationReason = "PluginHangs"
	// EventsMissed: plugins registered events that cannot be received.
	EventsMissed DegradationReason = "EventsMissed"
)

// Degradation is one thing that is wrong with the plugins of a running profile.
type Degradation struct {
	Reason DegradationReason
	// Message describes it in a whole sentence.
	Message string
}

// Degradations are ordered by severity, the most severe first.
type Degradations []Degradation

// Messages returns the messages, in order; nil for no degradations.
func (d Degradations) Messages() []string {
	var messages []string
	for _, degradation := range d {
		messages = append(messages, degradation.Message)
	}
	return messages
}

// Status is the state of one name, for debugging.
type Status struct {
	Name string
	// Blueprint runs since Since; nil if nothing runs.
	Blueprint *compile.Blueprint
	Since     time.Time
	Paused    bool
	// References is the number of references to the current Generation, including the
	// Set's own.
	References int
	// OldGenerations is the number of replaced Generations that are still open.
	OldGenerations int
	// PendingHash is the hash of a change that is in progress or waits; may be empty.
	PendingHash string
	// AbandonedCalls is the number of abandoned plugin calls that have not returned.
	// Degradations are what is wrong with the plugins.
	AbandonedCalls int
	Degradations   Degradations
	// Generation is the current Generation, without a reference, so it must only be read;
	// nil if nothing runs.
	Generation *Generation
}

// Statuses returns the status of each name, sorted by name.
func (s *Set) Statuses() []Status {
	s.mu.Lock()
	names := map[string]bool{}
	for _, known := range []map[string]bool{keySet(s.profiles), keySet(s.oldGenerations), keySet(s.pending), keySet(s.abandonedCalls), keySet(s.abandonedCloses)} {
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
	a := Status{Name: name, OldGenerations: s.oldGenerations[name], AbandonedCalls: s.abandonedCalls[name].calls + s.abandonedCloses[name].calls, Degradations: running.Degradations}
	if pending := s.pending[name]; pending != nil {
		a.PendingHash = pending.Hash
	}
	state := s.profiles[name]
	if state == nil {
		return a
	}
	if a.Paused = state.paused; state.current != nil {
		g := state.current
		a.Blueprint, a.Since, a.Generation = g.Blueprint(), state.since, g
		g.mu.Lock()
		a.References = g.refs
		g.mu.Unlock()
	}
	return a
}
