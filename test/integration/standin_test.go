package integration

import (
	"context"
	"errors"
	"sync"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/profile"
)

// Two plugins that are hard to build, each in its way.
const (
	brittle = "Brittle" // its factory fails
	slow    = "Slow"    // its factory waits for gate
)

// registry holds the in-tree plugins and those two.
func registry() framework.Registry {
	all, err := plugins.With(plugins.InTree(),
		plugins.Register(brittle, newBrittle, (*afterwards)(nil), nil),
		plugins.Register(slow, newSlow, (*afterwards)(nil), nil),
	)
	Expect(err).NotTo(HaveOccurred())
	return all
}

// afterwards does nothing after a bind.
type afterwards struct{ name string }

func (a *afterwards) Name() string { return a.name }

func (*afterwards) PostBind(context.Context, fwk.CycleState, *v1.Pod, string) {}

func newBrittle(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return nil, errors.New("the licence has run out")
}

func newSlow(ctx context.Context, _ runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
	return &afterwards{slow}, gate.pass(ctx)
}

// gate holds up every build of Slow while it is shut. It begins open.
var gate = &turnstile{}

type turnstile struct {
	mu   sync.Mutex
	shut chan struct{} // nil while open
}

// close shuts the gate and returns what opens it again.
func (t *turnstile) close() (open func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	shut := make(chan struct{})
	t.shut = shut
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.shut = nil
		close(shut)
	})
}

func (t *turnstile) pass(ctx context.Context) error {
	t.mu.Lock()
	shut := t.shut
	t.mu.Unlock()
	if shut == nil {
		return nil
	}
	select {
	case <-shut:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// standIn holds profiles without scheduling by them. It builds the two plugins
// above, which need nothing of a scheduler, and keeps profile.Set's promises.
type standIn struct {
	mu   sync.Mutex
	runs map[string]profile.Running
}

func (s *standIn) Apply(ctx context.Context, b *compile.Blueprint) error {
	if r, ok := s.Running(b.Name); ok && r.Blueprint.Hash == b.Hash {
		return nil
	}
	for _, entry := range b.Chains[framework.PostBind] {
		if _, err := registry()[entry.Name].New(ctx, nil, nil); err != nil {
			return &profile.BuildError{Plugin: entry.Name, Err: err}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs == nil {
		s.runs = map[string]profile.Running{}
	}
	s.runs[b.Name] = profile.Running{Blueprint: b, Since: time.Now()}
	return nil
}

func (s *standIn) Pause(string, bool) {}

func (s *standIn) Delete(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.runs, name)
}

func (s *standIn) Running(name string) (profile.Running, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.runs[name]
	return r, ok
}
