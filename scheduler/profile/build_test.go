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
	"github.com/berthdev/berth/test/probe"
)

// inTime runs a test in virtual time, with work beside the caller.
func inVirtualTime(t *testing.T, test func(w *testEnv)) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestEnv(t)
		w.options.Go = func(work func()) { go work() }
		test(w)
	})
}

// stubborn registers a plugin whose constructor comes back when release is
// closed, whatever its context says.
func (w *testEnv) registerHangingPlugin(name string, release <-chan struct{}, entered func(ctx context.Context)) {
	w.options.Registry[name] = framework.Registration{Name: name, Points: framework.Points,
		New: func(ctx context.Context, _ runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
			entered(ctx)
			<-release
			return &probe.Plugin{PluginName: name, Log: w.journal}, nil
		}}
}

func TestAConstructorThatHangsIsAbandoned(t *testing.T) {
	inVirtualTime(t, func(w *testEnv) {
		t := w.t
		release := make(chan struct{})
		given := make(chan context.Context, 2)
		w.apply(1, "one", "A")
		b := w.blueprint(2, "two", "Slow")
		w.registerHangingPlugin("Slow", release, func(ctx context.Context) { given <- ctx })
		w.journal.Take()

		err := w.Apply(t.Context(), b)
		var failed *BuildError
		if !errors.As(err, &failed) || failed.Plugin != "Slow" || !strings.Contains(err.Error(), "not within 30s") {
			t.Errorf("%v, want a BuildError that names Slow and the limit", err)
		}
		if (<-given).Err() == nil {
			t.Error("the constructor was not told that nobody waits for it")
		}
		w.wantRunning("one", 1)
		if err := w.Apply(t.Context(), b); err == nil || !strings.Contains(err.Error(), "has not come back") {
			t.Errorf("%v: the same is built again while it hangs", err)
		}
		w.apply(3, "three", "A")
		synctest.Wait()
		w.journal.Take()
		close(release)
		synctest.Wait()
		w.wantJournal("Slow.Close")
		if err := w.Apply(t.Context(), b); err != nil {
			t.Errorf("%v, after it has come back", err)
		}
	})
}

func TestBuildsThatHangAreBounded(t *testing.T) {
	inVirtualTime(t, func(w *testEnv) {
		t := w.t
		release := make(chan struct{})
		var entered atomic.Int32
		w.blueprint(1, "", "Slow")
		w.registerHangingPlugin("Slow", release, func(context.Context) { entered.Add(1) })
		for i := range maxAbandonedBuilds + 4 {
			if err := w.Apply(t.Context(), w.blueprint(int64(i), fmt.Sprint("hash-", i), "Slow")); err == nil {
				t.Fatal("built")
			}
		}
		if n := entered.Load(); n != maxAbandonedBuilds {
			t.Errorf("%d constructors were called that do not come back, want %d", n, maxAbandonedBuilds)
		}
		close(release)
		synctest.Wait()
	})
}

func TestOnlyTheNewestWaitingChangeIsApplied(t *testing.T) {
	w := newTestEnv(t)
	w.options.Go = func(work func()) { go work() }
	release, building := make(chan struct{}), make(chan struct{})
	w.blueprint(1, "", "Slow")
	w.registerHangingPlugin("Slow", release, func(context.Context) { close(building) })
	var results []chan error
	for _, b := range []*compile.Blueprint{
		w.blueprint(1, "one", "Slow"), w.blueprint(2, "two", "A"), w.blueprint(3, "three", "A"), w.blueprint(4, "four", "A"),
	} {
		result := make(chan error, 1)
		results = append(results, result)
		go func() { result <- w.Apply(t.Context(), b) }()
		for w.pendingBlueprint() != b {
			runtimego.Gosched()
		}
		<-building // else the second could come before the first had begun
	}
	close(release)
	for i, want := range []error{nil, ErrSuperseded, ErrSuperseded, nil} {
		if err := <-results[i]; !errors.Is(err, want) {
			t.Errorf("change %d: %v, want %v", i+1, err, want)
		}
	}
	w.wantRunning("four", 4)
}

// newest is the last Blueprint that somebody wanted to run as "p".
func (w *testEnv) pendingBlueprint() *compile.Blueprint {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pending["p"]
}

func TestAtMostEightOldGenerationsAreAlive(t *testing.T) {
	w := newTestEnv(t)
	var held []*Generation
	for i := range maxOldGenerations + 1 {
		w.apply(int64(i), fmt.Sprint("hash-", i), "A")
		g, _ := w.Acquire("p")
		held = append(held, g)
	}
	newest := w.blueprint(99, "newest", "B")
	if err := w.Apply(t.Context(), newest); !errors.Is(err, ErrTooManyGenerations) {
		t.Fatalf("%v, want ErrCrowded", err)
	}
	w.wantRunning("hash-8", 8)
	held[3].Release()
	if err := w.Apply(t.Context(), newest); err != nil {
		t.Errorf("%v, although one of them is closed", err)
	}
	w.wantRunning("newest", 99)
}

// A handler that has heard nothing yet would let its plugin decide on less
// than there is.
func TestAGenerationRunsOnceItsHandlersHaveSynced(t *testing.T) {
	inVirtualTime(t, func(w *testEnv) {
		t := w.t
		source := &slowInformer{synced: make(chan struct{})}
		w.options.Informers = scopedinformers.NewPool(scopedinformers.Options{Informers: source, Watched: []runtime.Object{&v1.Node{}}, Log: logr.Discard()})
		w.options.Clock = clock.RealClock{}
		b := w.blueprint(1, "one", "Listens")
		w.options.Registry["Listens"] = framework.Registration{Name: "Listens", Points: framework.Points,
			New: func(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
				_, err := h.SharedInformerFactory().Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{})
				return &probe.Plugin{PluginName: "Listens", Log: w.journal}, err
			}}
		err := w.Apply(t.Context(), b)
		if err == nil || !strings.Contains(err.Error(), "the informer of v1.Node, which a plugin uses, has not synced") {
			t.Errorf("%v, want that the informer of nodes has not synced", err)
		}
		if source.handlers != 0 {
			t.Errorf("%d handlers are left of a build that failed", source.handlers)
		}
		close(source.synced)
		if err := w.Apply(t.Context(), b); err != nil {
			t.Error(err)
		}
		if source.handlers != 1 {
			t.Errorf("%d handlers, want 1", source.handlers)
		}
		w.Delete("p")
		synctest.Wait()
	})
}
