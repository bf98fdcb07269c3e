package profile

import (
	"errors"
	"fmt"

	"github.com/berthdev/berth/scheduler/compile"
)

// abandon gives the build up: what comes of it later is taken down at once.
func (m *builder) abandon(why error) error {
	m.mu.Lock()
	finished, plugin := m.finished, m.currentPlugin
	if !finished {
		m.abandoned = true
		m.rebuildError = &BuildError{Plugin: plugin, Err: errors.New("its constructor was called before and has not come back")}
		m.set.addAbandonedBuild(m) // before built says that it came back
	}
	m.mu.Unlock()
	if finished {
		m.set.options.Go(m.teardown)
	} else {
		m.cancelPlugins()
	}
	return &BuildError{Plugin: plugin, Err: why}
}

// giveUp ends what can be ended while a plugin is at work that does not come
// back.
func (m *builder) cancelPlugins() {
	m.cancel()
	if m.scope != nil {
		m.scope.Close()
	}
}

// hangs says why b cannot be built as long as builds that were given up have
// not come back: the same would only hang again.
func (s *Set) checkAbandonedBuilds(b *compile.Blueprint) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for m := range s.abandonedBuilds {
		if m.blueprint.Name == b.Name && m.blueprint.Hash == b.Hash {
			return m.rebuildError
		}
	}
	if len(s.abandonedBuilds) >= maxAbandonedBuilds {
		return &BuildError{Err: fmt.Errorf("%d calls of plugins, of this profile and others, have not come back: "+
			"nothing is built until some do, or Berth is restarted", len(s.abandonedBuilds))}
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
