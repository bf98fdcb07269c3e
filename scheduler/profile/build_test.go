package profile

import (
	"context"
	"errors"
	"fmt"
	runtimego "runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/scopedinformers"
	"github.com/berthdev/berth/test/support/probe"
)

// inVirtualTime runs a test in virtual time, with goroutines.
func inVirtualTime(t *testing.T, test func(env *testEnv)) {
	synctest.Test(t, func(t *testing.T) {
		env := newTestEnv(t)
		env.options.Go = func(work func()) { go work() }
		test(env)
	})
}

// registerHangingPlugin registers a plugin whose constructor returns only when release is
// closed, even if its context ends.
func (env *testEnv) registerHangingPlugin(name string, release <-chan struct{}, entered func(ctx context.Context)) {
	env.options.Registry[name] = framework.Registration{Name: name, Points: framework.Points,
		New: func(ctx context.Context, _ runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
			entered(ctx)
			<-release
			return &probe.Plugin{PluginName: name, Log: env.journal}, nil
		}}
}

func TestAConstructorThatHangsIsAbandoned(t *testing.T) {
	inVirtualTime(t, func(env *testEnv) {
		t := env.t
		release := make(chan struct{})
		given := make(chan context.Context, 2)
		env.apply(1, "one", "A")
		b := env.blueprint(2, "two", "Slow")
		env.registerHangingPlugin("Slow", release, func(ctx context.Context) { given <- ctx })
		env.journal.Take()

		err := env.Apply(t.Context(), b)
		var failed *BuildError
		if !errors.As(err, &failed) || failed.Plugin != "Slow" || !strings.Contains(err.Error(), "not within 30s") {
			t.Errorf("%v, want a BuildError that names Slow and the limit", err)
		}
		if (<-given).Err() == nil {
			t.Error("the constructor's context did not end")
		}
		env.wantRunning("one", 1)
		if err := env.Apply(t.Context(), b); err == nil || !strings.Contains(err.Error(), "has not returned") {
			t.Errorf("%v, want an error: the same Blueprint hangs", err)
		}
		env.apply(3, "three", "A")
		synctest.Wait()
		env.journal.Take()
		close(release)
		synctest.Wait()
		env.wantJournal("Slow.Close")
		if err := env.Apply(t.Context(), b); err != nil {
			t.Errorf("%v, after the constructor returned", err)
		}
	})
}

func TestBuildsThatHangAreBounded(t *testing.T) {
	inVirtualTime(t, func(env *testEnv) {
		t := env.t
		release := make(chan struct{})
		var entered atomic.Int32
		env.blueprint(1, "", "Slow")
		env.registerHangingPlugin("Slow", release, func(context.Context) { entered.Add(1) })
		for i := range maxAbandonedBuilds + 4 {
			if err := env.Apply(t.Context(), env.blueprint(int64(i), fmt.Sprint("hash-", i), "Slow")); err == nil {
				t.Fatal("built")
			}
		}
		if n := entered.Load(); n != maxAbandonedBuilds {
			t.Errorf("%d hanging constructors were called, want %d", n, maxAbandonedBuilds)
		}
		close(release)
		synctest.Wait()
	})
}

func TestOnlyTheNewestWaitingChangeIsApplied(t *testing.T) {
	env := newTestEnv(t)
	env.options.Go = func(work func()) { go work() }
	release, building := make(chan struct{}), make(chan struct{})
	env.blueprint(1, "", "Slow")
	env.registerHangingPlugin("Slow", release, func(context.Context) { close(building) })
	var results []chan error
	for _, b := range []*compile.Blueprint{
		env.blueprint(1, "one", "Slow"), env.blueprint(2, "two", "A"), env.blueprint(3, "three", "A"), env.blueprint(4, "four", "A"),
	} {
		result := make(chan error, 1)
		results = append(results, result)
		go func() { result <- env.Apply(t.Context(), b) }()
		for env.pendingBlueprint() != b {
			runtimego.Gosched()
		}
		<-building // so that the first change begins before the second
	}
	close(release)
	for i, want := range []error{nil, ErrSuperseded, ErrSuperseded, nil} {
		if err := <-results[i]; !errors.Is(err, want) {
			t.Errorf("change %d: %v, want %v", i+1, err, want)
		}
	}
	env.wantRunning("four", 4)
}

// pendingBlueprint is the newest Blueprint of "p" that is being applied.
func (env *testEnv) pendingBlueprint() *compile.Blueprint {
	env.mu.Lock()
	defer env.mu.Unlock()
	return env.pending["p"]
}

func TestAtMostEightOldGenerationsAreAlive(t *testing.T) {
	env := newTestEnv(t)
	var held []*Generation
	for i := range maxOldGenerations + 1 {
		env.apply(int64(i), fmt.Sprint("hash-", i), "A")
		g, _ := env.Acquire("p")
		held = append(held, g)
	}
	newest := env.blueprint(99, "newest", "B")
	if err := env.CheckPlace("p"); !errors.Is(err, ErrTooManyGenerations) {
		t.Errorf("%v, want ErrTooManyGenerations", err)
	}
	if err := env.Apply(t.Context(), newest); !errors.Is(err, ErrTooManyGenerations) {
		t.Fatalf("%v, want ErrTooManyGenerations", err)
	}
	env.wantRunning("hash-8", 8)
	held[3].Release()
	if err := env.CheckPlace("p"); err != nil {
		t.Errorf("%v, although an old generation was closed", err)
	}
	if err := env.Apply(t.Context(), newest); err != nil {
		t.Errorf("%v, although an old generation was closed", err)
	}
	env.wantRunning("newest", 99)
}

// A plugin whose handlers have not synced would decide without some of the objects.
func TestAGenerationRunsOnceItsHandlersHaveSynced(t *testing.T) {
	inVirtualTime(t, func(env *testEnv) {
		t := env.t
		source := &slowInformer{synced: make(chan struct{})}
		env.options.Informers = scopedinformers.NewPool(scopedinformers.Options{Informers: source, Watched: []runtime.Object{&v1.Node{}}, Log: logr.Discard()})
		env.options.Clock = clock.RealClock{}
		b := env.blueprint(1, "one", "Listens")
		env.options.Registry["Listens"] = framework.Registration{Name: "Listens", Points: framework.Points,
			New: func(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
				_, err := h.SharedInformerFactory().Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{})
				return &probe.Plugin{PluginName: "Listens", Log: env.journal}, err
			}}
		err := env.Apply(t.Context(), b)
		if err == nil || !strings.Contains(err.Error(), "the informer of v1.Node, which a plugin uses, has not synced") {
			t.Errorf("%v, want that the informer of nodes has not synced", err)
		}
		if source.handlers != 0 {
			t.Errorf("%d handlers remain after a failed build", source.handlers)
		}
		close(source.synced)
		if err := env.Apply(t.Context(), b); err != nil {
			t.Error(err)
		}
		if source.handlers != 1 {
			t.Errorf("%d handlers, want 1", source.handlers)
		}
		env.Delete("p")
		synctest.Wait()
	})
}
