package profile

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/framework"
)

// abandon goes on without work, which calls plugins of the build. They are torn down when
// they have returned; until then no other build of the same Blueprint begins.
func (m *builder) abandon(work *framework.CallWatch, rebuildError error) {
	m.rebuildError = rebuildError
	m.set.addAbandonedBuild(m)
	// One of the plugins still hangs: only their context and handlers end now.
	m.cancel()
	if m.informers != nil {
		m.informers.Close()
	}
	work.WhenEnded(func() {
		m.teardown()
		m.set.removeAbandonedBuild(m)
	})
}

// checkAbandonedBuilds returns an error if a build of the same Blueprint was abandoned and
// has not returned, since the new one would hang as well, or if there are too many
// abandoned builds.
func (s *Set) checkAbandonedBuilds(b *compile.Blueprint) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for m := range s.abandonedBuilds {
		if m.blueprint.Name == b.Name && m.blueprint.Hash == b.Hash {
			return m.rebuildError
		}
	}
	if closes := s.abandonedCloses[b.Name]; closes.calls >= maxAbandonedCalls {
		return &BuildError{Plugin: closes.last.Plugin, Err: fmt.Errorf("%d calls of Close of plugins that the profile no longer uses have not returned: "+
			"its plugins are not built again until one returns or Berth restarts", closes.calls)}
	}
	if len(s.abandonedBuilds) >= maxAbandonedBuilds {
		return &BuildError{Err: fmt.Errorf("%d plugin calls of this and other profiles have not returned: "+
			"no profile is built until some return or Berth restarts", len(s.abandonedBuilds))}
	}
	return nil
}

func (s *Set) addAbandonedBuild(m *builder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.abandonedBuilds[m] = struct{}{}
}

func (s *Set) removeAbandonedBuild(m *builder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.abandonedBuilds, m)
}

// maxAbandonedCalls bounds the abandoned calls of one profile's plugins that have not
// returned, and the abandoned calls of Close on their own.
const maxAbandonedCalls = 16

// AbandonedCallsError says that Berth no longer calls a profile's plugins, because too many
// of their calls have not returned.
type AbandonedCallsError struct {
	// Last is the call that was abandoned last.
	Last framework.Call
	// Calls is the number of abandoned calls.
	Calls int
}

func (e *AbandonedCallsError) Error() string {
	return fmt.Sprintf("%d calls of the profile's plugins have not returned, the last of plugin %q from %s: "+
		"no pod is scheduled until one returns or Berth restarts", e.Calls, e.Last.Plugin, e.Last.Point)
}

// abandonedCalls are the abandoned calls of one profile's plugins that have not returned.
type abandonedCalls struct {
	calls int
	last  framework.Call
}

// TooManyAbandonedCalls returns an *AbandonedCallsError while maxAbandonedCalls calls of the
// plugins of the profile called name have not returned.
func (s *Set) TooManyAbandonedCalls(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if abandoned := s.abandonedCalls[name]; abandoned.calls >= maxAbandonedCalls {
		return &AbandonedCallsError{Last: abandoned.last, Calls: abandoned.calls}
	}
	return nil
}

// RecordAbandonedCall counts an abandoned call of one of f's plugins. The caller calls
// returned when the call returns.
func (s *Set) RecordAbandonedCall(f *framework.Framework, call framework.Call) (returned func()) {
	f.AddAbandonedCalls(1)
	s.addAbandonedCalls(f.ProfileName(), call, 1)
	return func() {
		s.addAbandonedCalls(f.ProfileName(), framework.Call{}, -1)
		f.AddAbandonedCalls(-1)
	}
}

func (s *Set) addAbandonedCalls(name string, call framework.Call, by int) {
	calls := s.countAbandoned(s.abandonedCalls, name, call, by)
	if (calls-by >= maxAbandonedCalls) != (calls >= maxAbandonedCalls) {
		s.options.Go(func() { s.options.Queue.RecheckHolds(context.Background(), name, "") })
	}
}

// countAbandoned changes how many abandoned calls of a profile's plugins have not returned, and
// returns how many there are now. s.mu must not be held.
func (s *Set) countAbandoned(counts map[string]abandonedCalls, name string, call framework.Call, by int) int {
	s.mu.Lock()
	abandoned := counts[name]
	if abandoned.calls += by; by > 0 {
		abandoned.last = call
	}
	if counts[name] = abandoned; abandoned.calls == 0 {
		delete(counts, name)
	}
	s.mu.Unlock()
	s.notifyDegradedChange(name)
	return abandoned.calls
}

// abandonClose counts an abandoned call of Close of one of the build's plugins until it
// returns. It does not count among the abandonedCalls: no attempt waits for it, and the plugins
// that run now may be others, whose pods must not pay for it. So it bounds builds only.
func (m *builder) abandonClose(call framework.Call) (returned func()) {
	name := m.blueprint.Name
	m.set.options.Log.Error(&framework.CallTimeoutError{Call: call}, "The plugin is left behind", "profile", name)
	m.set.countAbandoned(m.set.abandonedCloses, name, call, 1)
	return func() { m.set.countAbandoned(m.set.abandonedCloses, name, framework.Call{}, -1) }
}

// DegradedChanged returns a channel that holds one value after the Degradations of a
// profile changed. Its reader drains it and then calls TakeDegradedChanges: the channel
// carries no data.
func (s *Set) DegradedChanged() <-chan struct{} { return s.degradedChanged }

// TakeDegradedChanges returns the names of the profiles whose Degradations changed since
// the last call, sorted.
func (s *Set) TakeDegradedChanges() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := sets.List(s.degradedChanges)
	clear(s.degradedChanges)
	return names
}

func (s *Set) notifyDegradedChange(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.degradedChanges.Insert(name)
	framework.Notify(s.degradedChanged)
}

// degradations returns what is wrong with the plugins of name's current Generation, except
// for missed events. The caller holds the lock.
func (s *Set) degradations(name string, g *Generation) (all Degradations) {
	abandoned := s.abandonedCalls[name]
	if abandoned.calls >= maxAbandonedCalls {
		all = append(all, Degradation{TooManyAbandonedCalls, (&AbandonedCallsError{abandoned.last, abandoned.calls}).Error()})
	}
	if broken := g.Framework.QueueSortFault(); broken != nil {
		all = append(all, Degradation{QueueSortReplaced, broken.Error() + ": its pods are sorted by PrioritySort instead"})
	}
	if abandoned.calls > 0 && abandoned.calls < maxAbandonedCalls {
		all = append(all, Degradation{PluginHangs, fmt.Sprintf("%d of at most %d calls of its plugins have not returned, the last of plugin %q from %s",
			abandoned.calls, maxAbandonedCalls, abandoned.last.Plugin, abandoned.last.Point)})
	}
	if closes := s.abandonedCloses[name]; closes.calls > 0 {
		all = append(all, Degradation{PluginHangs, fmt.Sprintf("%d of at most %d calls of Close of plugins that it no longer uses have not returned, the last of plugin %q",
			closes.calls, maxAbandonedCalls, closes.last.Plugin)})
	}
	return all
}
