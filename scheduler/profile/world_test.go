package profile

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/tools/cache"
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
		Go: func(work func()) { work() }, // so that what a test did is done
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

func (w *world) Reconsider(_ context.Context, name, namespace string) {
	w.journal.Note("reconsider %s %s", name, namespace)
}

func (w *world) GateOpened(_ context.Context, uid types.UID) { w.journal.Note("gate opened %s", uid) }

func (w *world) Abandon(_ context.Context, name string, hold queue.Hold) {
	w.journal.Note("abandon %s: %s", name, hold.Reason)
	delete(w.rules, name)
}

func (w *world) Withhold(_ context.Context, name string, hold queue.Hold) {
	w.journal.Note("withhold %s: %s: %s", name, hold.Reason, hold.Message)
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

func (s *served) Reconsider(context.Context, string, string) {}

func (s *served) GateOpened(context.Context, types.UID) {}

func (s *served) Withhold(context.Context, string, queue.Hold) {}

func (s *served) Abandon(_ context.Context, name string, _ queue.Hold) {
	if s.during != nil {
		s.during()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names[name] = false
}

// slowInformer is a factory with one informer, which syncs when started is
// closed, and counts its handlers.
type slowInformer struct {
	informers.SharedInformerFactory
	cache.SharedIndexInformer
	started  chan struct{}
	handlers int
}

func (s *slowInformer) InformerFor(runtimeapi.Object, internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	return s
}

func (s *slowInformer) AddEventHandler(cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	s.handlers++
	return slowRegistration{s}, nil
}

func (s *slowInformer) RemoveEventHandler(cache.ResourceEventHandlerRegistration) error {
	s.handlers--
	return nil
}

type slowRegistration struct{ of *slowInformer }

func (r slowRegistration) HasSynced() bool                     { return false }
func (r slowRegistration) HasSyncedChecker() cache.DoneChecker { return r }
func (r slowRegistration) Name() string                        { return "slow" }
func (r slowRegistration) Done() <-chan struct{}               { return r.of.started }
