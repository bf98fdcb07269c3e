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
	"github.com/berthdev/berth/test/support/probe"
)

// testEnv is a Set whose profiles run one probe each. It is also their PodQueue, which
// records the calls, and provides their Host.
type testEnv struct {
	*Set
	t       *testing.T
	journal *probe.CallLog
	probes  map[string]*probe.Plugin
	// rules are the current rules by profile.
	rules map[string]*queue.Rules
	// onSetProfile is called during SetProfile; may be nil.
	onSetProfile func()
	// unsupported is the field that this build does not support.
	unsupported string
}

func newTestEnv(t *testing.T) *testEnv {
	env := &testEnv{t: t, journal: &probe.CallLog{}, rules: map[string]*queue.Rules{}, probes: map[string]*probe.Plugin{}}
	env.Set = NewSet(Options{
		Registry:    framework.Registry{},
		Hosts:       env,
		Queue:       env,
		Unsupported: func(*v1.Pod) (string, string) { return env.unsupported, "not yet" },
		Clock:       clock.RealClock{}, Log: logr.Discard(),
		Go: func(work func()) { work() }, // synchronously, so that tests need not wait
	})
	return env
}

func (env *testEnv) HostFor(string) framework.Host {
	return framework.Host{Clock: clock.RealClock{}, WaitingPods: framework.NewWaitingPods(clock.RealClock{})}
}

func (env *testEnv) SetProfile(_ context.Context, name string, rules *queue.Rules) {
	env.journal.Add("set %s", name)
	env.rules[name] = rules
	if env.onSetProfile != nil {
		env.onSetProfile()
	}
}

func (env *testEnv) RecheckHolds(_ context.Context, name, namespace string) {
	env.journal.Add("recheck holds %s %s", name, namespace)
}

func (env *testEnv) RecheckGates(_ context.Context, uid types.UID) {
	env.journal.Add("recheck gates %s", uid)
}

func (env *testEnv) RemoveProfile(_ context.Context, name string, hold queue.Hold) {
	env.journal.Add("remove %s: %s", name, hold.Reason)
	delete(env.rules, name)
}

func (env *testEnv) HoldProfile(_ context.Context, name string, hold queue.Hold) {
	env.journal.Add("hold %s: %s: %s", name, hold.Reason, hold.Message)
}

func (env *testEnv) ReleaseProfile(_ context.Context, name string) {
	env.journal.Add("release %s", name)
}

// blueprint returns a Blueprint of profile "p" that runs a probe called plugin.
func (env *testEnv) blueprint(generation int64, hash, plugin string) *compile.Blueprint {
	if env.probes[plugin] == nil {
		env.probes[plugin] = &probe.Plugin{
			PluginName: plugin, Log: env.journal, Statuses: map[string]probe.StatusFunc{},
			Events: []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}}},
		}
		for name, registration := range probe.Registry(env.probes[plugin]) {
			env.options.Registry[name] = registration
		}
	}
	return &compile.Blueprint{
		Name: "p", Generation: generation, Hash: hash, Chains: probe.Chains([]*probe.Plugin{env.probes[plugin]}),
	}
}

func (env *testEnv) apply(generation int64, hash, plugin string) {
	env.t.Helper()
	if err := env.Apply(env.t.Context(), env.blueprint(generation, hash, plugin)); err != nil {
		env.t.Fatal(err)
	}
}

// wantRunning fails the test unless "p" runs with the given hash and generation; an empty
// hash means that it does not run.
func (env *testEnv) wantRunning(hash string, generation int64) {
	env.t.Helper()
	running, ok := env.Running("p")
	switch {
	case !ok && hash != "":
		env.t.Errorf("nothing runs, want %s", hash)
	case ok && (running.Blueprint.Hash != hash || running.Blueprint.Generation != generation):
		env.t.Errorf("%s of generation %d runs, want %q of %d", running.Blueprint.Hash, running.Blueprint.Generation, hash, generation)
	}
}

func (env *testEnv) wantJournal(want ...string) {
	env.t.Helper()
	got := slices.DeleteFunc(env.journal.Take(), func(line string) bool { return line[len(line)-1] == 'r' }) // EventsToRegister
	if !slices.Equal(got, want) {
		env.t.Errorf("calls: %q, want %q", got, want)
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

// servedProfiles is a PodQueue that only records which profiles it serves.
type servedProfiles struct {
	mu    sync.Mutex
	names map[string]bool
	// onRemoveProfile is called during RemoveProfile.
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

func (s *servedProfiles) ReleaseProfile(context.Context, string) {}

func (s *servedProfiles) RemoveProfile(_ context.Context, name string, _ queue.Hold) {
	if s.onRemoveProfile != nil {
		s.onRemoveProfile()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names[name] = false
}

// slowInformer is a factory with one informer, which syncs when synced is closed, and
// counts its handlers.
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
