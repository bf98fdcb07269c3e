package profile

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/test/probe"
)

// world is a Set whose profiles run one probe each, and what the queue was told.
type world struct {
	*Set
	t       *testing.T
	journal *probe.Journal
	probes  map[string]*probe.Probe
	// rules are what the queue has adopted.
	rules map[string]*queue.Rules
	// meanwhile, where it is not nil, happens while the queue adopts.
	meanwhile func()
	// unsupported is the field that this build cannot honour.
	unsupported string
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, journal: &probe.Journal{}, rules: map[string]*queue.Rules{}, probes: map[string]*probe.Probe{}}
	w.Set = NewSet(Options{
		Registry: framework.Registry{},
		HostFor: func(string) framework.Host {
			return framework.Host{Clock: clock.RealClock{}, Waiting: framework.NewWaitingPods(clock.RealClock{})}
		},
		Waiting:     w,
		Unsupported: func(*v1.Pod) (string, string) { return w.unsupported, "not yet" },
		Clock:       clock.RealClock{}, Log: logr.Discard(),
	})
	return w
}

func (w *world) Adopt(_ context.Context, name string, rules *queue.Rules) {
	w.journal.Note("adopt %s", name)
	w.rules[name] = rules
	if w.meanwhile != nil {
		w.meanwhile()
	}
}

func (w *world) Abandon(_ context.Context, name string, hold queue.Hold) {
	w.journal.Note("abandon %s: %s", name, hold.Reason)
	delete(w.rules, name)
}

// blueprint runs a probe called plugin under the name "p", with the given hash.
func (w *world) blueprint(generation int64, hash, plugin string) *compile.Blueprint {
	if w.probes[plugin] == nil {
		w.probes[plugin] = &probe.Probe{
			Called: plugin, Journal: w.journal, On: map[string]probe.Answer{},
			Events: []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}}},
		}
		for name, registration := range probe.Registry(w.probes[plugin]) {
			w.options.Registry[name] = registration
		}
	}
	return &compile.Blueprint{
		Name: "p", Generation: generation, Hash: hash, Chains: probe.Chains([]*probe.Probe{w.probes[plugin]}),
	}
}

func (w *world) apply(generation int64, hash, plugin string) {
	w.t.Helper()
	if err := w.Apply(w.t.Context(), w.blueprint(generation, hash, plugin)); err != nil {
		w.t.Fatal(err)
	}
}

// runs fails the test unless the name "p" is served by the given hash and
// generation; an empty hash means by nobody.
func (w *world) runs(hash string, generation int64) {
	w.t.Helper()
	running, ok := w.Running("p")
	switch {
	case !ok && hash != "":
		w.t.Errorf("nothing runs, want %s", hash)
	case ok && (running.Blueprint.Hash != hash || running.Blueprint.Generation != generation):
		w.t.Errorf("%s of generation %d runs, want %q of %d", running.Blueprint.Hash, running.Blueprint.Generation, hash, generation)
	}
}

func (w *world) wantJournal(want ...string) {
	w.t.Helper()
	got := slices.DeleteFunc(w.journal.Take(), func(line string) bool { return line[len(line)-1] == 'r' }) // EventsToRegister
	if !slices.Equal(got, want) {
		w.t.Errorf("what happened: %q, want %q", got, want)
	}
}

func isClosed(g *Generation) bool {
	select {
	case <-g.Closed():
		return true
	default:
		return false
	}
}

// served is a queue that remembers only whom it serves.
type served struct {
	mu    sync.Mutex
	names map[string]bool
	// during happens while a profile is abandoned.
	during func()
}

func (s *served) Adopt(_ context.Context, name string, _ *queue.Rules) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names[name] = true
}

func (s *served) Abandon(_ context.Context, name string, _ queue.Hold) {
	if s.during != nil {
		s.during()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names[name] = false
}
