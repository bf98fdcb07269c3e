package integration

import (
	"context"
	"errors"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
)

// Two plugins that are hard to build, each in its way.
const (
	brittle = "Brittle" // its factory fails
	slow    = "Slow"    // its factory waits for gate
)

// testPlugins are those two, Bomb, Sluice, Tripwire and Picky. All read of pods what
// built-in plugins read, so that informers keep what they keep in a shipped manager.
func testPlugins() []framework.Registration {
	return []framework.Registration{
		plugins.Register(brittle, newBrittle, (*afterwards)(nil), nil, plugins.ReadsTrimmedPods()),
		plugins.Register(slow, newSlow, (*afterwards)(nil), nil, plugins.ReadsTrimmedPods()),
		plugins.Register(bomb, newBomb, (*afterwards)(nil), nil, plugins.ReadsTrimmedPods()),
		plugins.Register(sluice, newSluice, (*sluicePlugin)(nil), nil, plugins.ReadsTrimmedPods()),
		plugins.Register(tripwire, newTripwire, &tripwirePlugin{}, nil, plugins.ReadsTrimmedPods()),
		plugins.Register(picky, newPicky, pickyPlugin{}, nil, plugins.ReadsTrimmedPods()),
	}
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
	// waits is how many wait for it to open.
	waits int
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

func (t *turnstile) open() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.shut == nil
}

// held is how many wait for it to open.
func (t *turnstile) held() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waits
}

func (t *turnstile) pass(ctx context.Context) error {
	t.mu.Lock()
	shut := t.shut
	t.waits++
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.waits--
	}()
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
