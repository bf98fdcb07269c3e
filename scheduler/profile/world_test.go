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
type testEnv struct {
	*Set
	t       *testing.T
	journal *probe.CallLog
	probes  map[string]*probe.Plugin
	// rules are what the queue has adopted.
	rules map[string]*queue.Rules
	// meanwhile, where it is not nil, happens while the queue adopts.
	onSetProfile func()
	// unsupported is the field that this build cannot honour.
	unsupported string
}

func newTestEnv(t *testing.T) *testEnv {
	w := &testEnv{t: t, journal: &probe.CallLog{}, rules: map[string]*queue.Rules{}, probes: map[string]*probe.Plugin{}}
	w.Set = NewSet(Options{
		Registry: framework.Registry{},
		HostFor: func(string) framework.Host {
			return framework.Host{Clock: clock.RealClock{}, WaitingPods: framework.NewWaitingPods(clock.RealClock{})}
		},
		Queue:       w,
		Unsupported: func(*v1.Pod) (string, string) { return w.unsupported, "not yet" },
		Clock:       clock.RealClock{}, Log: logr.Discard(),
		Go: func(work func()) { work() }, // so that what a test did is done
	})
	return w
}

func (w *testEnv) SetProfile(_ context.Context, name string, rules *queue.Rules) {
	w.journal.Add("adopt %s", name)
	w.rules[name] = rules
	if w.onSetProfile != nil {
		w.onSetProfile()
	}
}

func (w *testEnv) RecheckHolds(_ context.Context, name, namespace string) {
	w.journal.Add("reconsider %s %s", name, namespace)
}

func (w *testEnv) RecheckGates(_ context.Context, uid types.UID) {
	w.journal.Add("gate opened %s", uid)
}

func (w *testEnv) RemoveProfile(_ context.Context, name string, hold queue.Hold) {
	w.journal.Add("abandon %s: %s", name, hold.Reason)
	delete(w.rules, name)
}

func (w *testEnv) HoldProfile(_ context.Context, name string, hold queue.Hold) {
	w.journal.Add("withhold %s: %s: %s", name, hold.Reason, hold.Message)
}

// blueprint runs a probe called plugin under the name "p", with the given hash.
func (w *testEnv) blueprint(generation int64, hash, plugin string) *compile.Blueprint {
	if w.probes[plugin] == nil {
		w.probes[plugin] = &probe.Plugin{
			PluginName: plugin, Log: w.journal, Statuses: map[string]probe.StatusFunc{},
			Events: []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}}},
		}
		for name, registration := range probe.Registry(w.probes[plugin]) {
			w.options.Registry[name] = registration
		}
	}
	return &compile.Blueprint{
		Name: "p", Generation: generation, Hash: hash, Chains: probe.Chains([]*probe.Plugin{w.probes[plugin]}),
	}
}

func (w *testEnv) apply(generation int64, hash, plugin string) {
	w.t.Helper()
	if err := w.Apply(w.t.Context(), w.blueprint(generation, hash, plugin)); err != nil {
		w.t.Fatal(err)
	}
}

// runs fails the test unless the name "p" is served by the given hash and
// generation; an empty hash means by nobody.
func (w *testEnv) wantRunning(hash string, generation int64) {
	w.t.Helper()
	running, ok := w.Running("p")
	switch {
	case !ok && hash != "":
		w.t.Errorf("nothing runs, want %s", hash)
	case ok && (running.Blueprint.Hash != hash || running.Blueprint.Generation != generation):
		w.t.Errorf("%s of generation %d runs, want %q of %d", running.Blueprint.Hash, running.Blueprint.Generation, hash, generation)
	}
}

func (w *testEnv) wantJournal(want ...string) {
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
type servedProfiles struct {
	mu    sync.Mutex
	names map[string]bool
	// during happens while a profile is abandoned.
	onRemoveProfile func()
}

func (s *servedProfiles) SetProfile(_ context.Context, name string, _ *queue.Rules) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names[name] = true
}

func (s *servedProfiles) RecheckHolds(context.Context, string, string) {}

func (s *servedProfiles) RecheckGates(context.Context, types.UID) {}

func (s *servedProfiles) HoldProfile(context.Context, string, queue.Hold) {}

func (s *servedProfiles) RemoveProfile(_ context.Context, name string, _ queue.Hold) {
	if s.onRemoveProfile != nil {
		s.onRemoveProfile()
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
	synced   chan struct{}
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

type slowRegistration struct{ informer *slowInformer }

func (r slowRegistration) HasSynced() bool                     { return false }
func (r slowRegistration) HasSyncedChecker() cache.DoneChecker { return r }
func (r slowRegistration) Name() string                        { return "slow" }
func (r slowRegistration) Done() <-chan struct{}               { return r.informer.synced }
