package profile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/scopedinformers"
	"github.com/berthdev/berth/test/support/probe"
)

// closesWhen makes the Close of a plugin return only when release is closed.
func (env *testEnv) closesWhen(plugin string, release <-chan struct{}) {
	env.setAnswer(plugin, "Close", func() *fwk.Status { <-release; return nil })
}

// within fails the test unless do returns within so much virtual time.
func (env *testEnv) within(limit time.Duration, what string, do func()) {
	env.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(limit):
		env.t.Fatalf("%s has not returned after %v", what, limit)
	}
}

const closeHangs = `1 of at most 16 calls of Close of plugins that it no longer uses have not returned, the last of plugin "Stuck"`

func TestAPluginThatDoesNotCloseKeepsNoChangeWaiting(t *testing.T) {
	for name, change := range map[string]func(env *testEnv) error{
		"a constructor after it fails": func(env *testEnv) error {
			env.setAnswer("Broken", "New", probe.Fail(errors.New("no")))
			b := env.blueprint(2, "two", "Stuck")
			b.Chains[framework.Filter] = append(b.Chains[framework.Filter], framework.Entry{Name: "Broken"})
			return env.Apply(env.t.Context(), b)
		},
		"its events cannot be registered": func(env *testEnv) error {
			b := env.blueprint(2, "two", "Stuck")
			env.wrapPlugin("Stuck", func(p *probe.Plugin) fwk.Plugin { return failingEvents{p} })
			return env.Apply(env.t.Context(), b)
		},
		"its handler does not sync": func(env *testEnv) error {
			source := &slowInformer{synced: make(chan struct{})}
			env.options.Informers = scopedinformers.NewPool(scopedinformers.Options{Informers: source, Watched: []runtime.Object{&v1.Node{}}, Log: logr.Discard()})
			b := env.blueprint(2, "two", "Stuck")
			env.options.Registry["Stuck"] = framework.Registration{Name: "Stuck", Points: framework.Points,
				New: func(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
					_, err := h.SharedInformerFactory().Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{})
					return env.probes["Stuck"], err
				}}
			return env.Apply(env.t.Context(), b)
		},
		"its trial ends": func(env *testEnv) error {
			_, err := env.withPods("first").Try(env.t.Context(), env.blueprint(2, "two", "Stuck"))
			return errors.Join(err, errors.New("tried only"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(env *testEnv) {
				t := env.t
				release := make(chan struct{})
				env.apply(1, "one", "A")
				env.closesWhen("Stuck", release)
				// Released at the end also where the test fails, so that it fails for its own reason.
				defer synctest.Wait()
				defer close(release)
				env.within(time.Minute, "the change", func() {
					if err := change(env); err == nil {
						t.Error("applied")
					}
				})
				env.wantRunning("one", 1)
				env.wantHangs(closeHangs)
				env.within(time.Second, "a pause and an edit", func() {
					env.SetPaused("p", true)
					env.options.Informers = nil
					env.apply(3, "three", "B")
				})
				env.within(time.Second, "the deletion", func() { env.Delete("p") })
			})
		})
	}
}

// wantHangs fails the test unless "p" is degraded because calls hang, with these messages.
func (env *testEnv) wantHangs(want ...string) {
	env.t.Helper()
	running, _ := env.Running("p")
	if got := running.Degradations.Messages(); fmt.Sprint(got) != fmt.Sprint(want) {
		env.t.Errorf("degradations %q, want %q", got, want)
	}
	for _, d := range running.Degradations {
		if d.Reason != PluginHangs {
			env.t.Errorf("%q has reason %s, want %s", d.Message, d.Reason, PluginHangs)
		}
	}
}

// wrapPlugin makes the constructor of a plugin return what wrap makes of its probe.
func (env *testEnv) wrapPlugin(plugin string, wrap func(*probe.Plugin) fwk.Plugin) {
	registration := env.options.Registry[plugin]
	registration.New = func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
		return wrap(env.probes[plugin]), nil
	}
	env.options.Registry[plugin] = registration
}

// failingEvents is a plugin whose events cannot be registered.
type failingEvents struct{ *probe.Plugin }

func (failingEvents) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return nil, errors.New("no")
}

func TestTheOtherPluginsOfABuildAreClosedWhenOneHangs(t *testing.T) {
	inVirtualTime(t, func(env *testEnv) {
		release := make(chan struct{})
		env.closesWhen("Stuck", release)
		b := env.blueprint(1, "one", "A")
		env.blueprint(1, "", "Stuck")
		b.Chains[framework.Filter] = append(b.Chains[framework.Filter], framework.Entry{Name: "Stuck"})
		if err := env.Apply(env.t.Context(), b); err != nil {
			t.Fatal(err)
		}
		env.journal.Take()
		env.apply(2, "two", "B")
		time.Sleep(framework.CallTimeout)
		synctest.Wait()
		env.wantJournal("set p", "Stuck.Close", "A.Close")
		close(release)
		synctest.Wait()
		env.wantHangs()
		env.Delete("p")
		synctest.Wait()
	})
}

// A Generation whose plugins do not close has no pods to bind any more.
func TestAGenerationThatDoesNotCloseIsNoOldGeneration(t *testing.T) {
	inVirtualTime(t, func(env *testEnv) {
		t := env.t
		release := make(chan struct{})
		env.closesWhen("Stuck", release)
		generations := int64(0)
		next := func() *compile.Blueprint {
			generations++
			return env.blueprint(generations, fmt.Sprint("hash-", generations), "Stuck")
		}
		for range maxAbandonedCalls + 1 {
			if err := env.Apply(t.Context(), next()); err != nil {
				t.Fatalf("change %d: %v", generations, err)
			}
			time.Sleep(framework.CallTimeout)
			synctest.Wait()
		}
		if n := env.oldGenerations["p"]; n != 0 {
			t.Errorf("%d old generations, want none", n)
		}
		// What hangs is bounded, and costs changes rather than pods.
		err := env.Apply(t.Context(), next())
		if err == nil || !strings.Contains(err.Error(), `plugin Stuck could not be built: 16 calls of Close of plugins that the profile no longer uses have not returned`) {
			t.Errorf("%v, want that 16 calls of Close have not returned", err)
		}
		if err := env.TooManyAbandonedCalls("p"); err != nil {
			t.Errorf("no pod is scheduled: %v", err)
		}
		close(release)
		synctest.Wait()
		env.wantHangs()
		if err := env.Apply(t.Context(), next()); err != nil {
			t.Errorf("%v, although all calls have returned", err)
		}
		env.Delete("p")
		synctest.Wait()
	})
}

// An informer stops once its handlers have returned.
func TestAnInformerHandlerThatHangsKeepsNoChangeWaiting(t *testing.T) {
	inVirtualTime(t, func(env *testEnv) {
		t := env.t
		client := fake.NewClientset(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}})
		env.options.Informers = scopedinformers.NewPool(scopedinformers.Options{
			Informers: informers.NewSharedInformerFactory(client, 0), Client: client, Log: logr.Discard()})
		release := make(chan struct{})
		// Released at the end also where the test fails, so that it fails for its own reason.
		defer synctest.Wait()
		defer close(release)
		env.apply(1, "one", "A")
		b := env.blueprint(2, "two", "Stuck")
		env.options.Registry["Stuck"] = framework.Registration{Name: "Stuck", Points: framework.Points,
			New: func(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
				_, err := h.SharedInformerFactory().Storage().V1().StorageClasses().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
					AddFunc: func(any) { <-release },
				})
				return env.probes["Stuck"], err
			}}
		env.within(time.Minute, "the change", func() {
			if err := env.Apply(t.Context(), b); err == nil || !strings.Contains(err.Error(), "has not synced") {
				t.Errorf("%v, want that the informer has not synced", err)
			}
		})
		env.within(time.Second, "an edit", func() { env.apply(3, "three", "B") })
		env.within(time.Second, "the deletion", func() { env.Delete("p") })
	})
}
