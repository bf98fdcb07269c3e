package profile

import (
	"errors"
	"fmt"

	"github.com/berthdev/berth/scheduler/compile"
)

// abandon gives the build up: what comes of it later is taken down at once.
func (m *build) abandon(why error) error {
	m.mu.Lock()
	finished, plugin := m.finished, m.at
	if !finished {
		m.abandoned = true
		m.hangs = &BuildError{Plugin: plugin, Err: errors.New("its constructor was called before and has not come back")}
		m.set.givenUp(m) // before built says that it came back
	}
	m.mu.Unlock()
	if finished {
		m.set.options.Go(m.takeDown)
	} else {
		m.giveUp()
	}
	return &BuildError{Plugin: plugin, Err: why}
}

// giveUp ends what can be ended while a plugin is at work that does not come
// back.
func (m *build) giveUp() {
	m.cancel()
	if m.scope != nil {
		m.scope.Close()
	}
}

// hangs says why b cannot be built as long as builds that were given up have
// not come back: the same would only hang again.
func (s *Set) hangs(b *compile.Blueprint) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for m := range s.abandoned {
		if m.blueprint.Name == b.Name && m.blueprint.Hash == b.Hash {
			return m.hangs
		}
	}
	if len(s.abandoned) >= maxAbandoned {
		return &BuildError{Err: fmt.Errorf("%d calls of plugins, of this profile and others, have not come back: "+
			"nothing is built until some do, or Berth is restarted", len(s.abandoned))}
	}
	return nil
}

func (s *Set) givenUp(m *build) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.abandoned[m] = struct{}{}
}

func (s *Set) cameBack(m *build) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.abandoned, m)
}
