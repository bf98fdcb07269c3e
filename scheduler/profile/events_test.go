package profile

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/scheduler/scopedinformers"
)

// withDynamicInformers adds an informer pool to the environment, on a cluster that serves
// foos while served returns true.
func (env *testEnv) withDynamicInformers(served func() bool) *testEnv {
	kinds := map[schema.GroupVersionResource]string{{Group: "example.com", Version: "v1", Resource: "foos"}: "FooList"}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(scheme.Scheme, kinds)
	client.PrependReactor("list", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if served() {
			return false, nil, nil
		}
		return true, nil, apierrors.NewNotFound(action.GetResource().GroupResource(), "")
	})
	kubernetes := fake.NewClientset()
	env.options.Informers = scopedinformers.NewPool(scopedinformers.Options{
		Informers: informers.NewSharedInformerFactory(kubernetes, 0), Client: kubernetes, Dynamic: client,
		OwnEvents: []fwk.EventResource{fwk.Node}, Queue: queue.New(queue.Options{Clock: clock.RealClock{}}),
	})
	return env
}

// registersEvents makes a plugin register events of these resources.
func (env *testEnv) registersEvents(plugin string, resources ...fwk.EventResource) {
	env.blueprint(0, "", plugin)
	var events []fwk.ClusterEventWithHint
	for _, resource := range resources {
		events = append(events, fwk.ClusterEventWithHint{Event: fwk.ClusterEvent{Resource: resource, ActionType: fwk.Add}})
	}
	env.probes[plugin].Events = events
}

// wantDegradations compares the degradations of "p" by their beginnings.
func (env *testEnv) wantDegradations(want ...string) {
	env.t.Helper()
	running, ok := env.Running("p")
	if !ok {
		env.t.Fatal("nothing runs")
	}
	hasPrefix := func(got, prefix string) bool { return strings.HasPrefix(got, prefix) }
	if !slices.EqualFunc(running.Degradations.Messages(), want, hasPrefix) {
		env.t.Errorf("degradations (-want +got):\n%s", cmp.Diff(want, running.Degradations.Messages()))
	}
	for _, d := range running.Degradations {
		if d.Reason != EventsMissed {
			env.t.Errorf("%q has reason %s, want %s", d.Message, d.Reason, EventsMissed)
		}
	}
}

func TestMissedEventsDegradeAProfileThatKeepsRunning(t *testing.T) {
	inVirtualTime(t, func(env *testEnv) {
		t := env.t
		var served atomic.Bool
		env.withDynamicInformers(served.Load)
		const missed = "events of foos.v1.example.com are not received, so pods that A rejected may wait longer: "
		env.registersEvents("A", fwk.Node, "foos.v1.example.com", "foos")
		env.apply(1, "one", "A")
		env.wantRunning("one", 1)
		env.wantDegradations("events of foos are not received, so pods that A rejected may wait longer: ", missed)

		served.Store(true)
		env.TakeDegradedChanges()
		time.Sleep(time.Minute)
		synctest.Wait()
		env.wantDegradations("events of foos are not received, so pods that A rejected may wait longer: ")
		if changed := env.TakeDegradedChanges(); !slices.Equal(changed, []string{"p"}) {
			t.Errorf("changes %q: none says that events of foos are received", changed)
		}

		env.registersEvents("B", fwk.Node)
		env.apply(2, "two", "B")
		env.wantDegradations()
		env.Delete("p")
		synctest.Wait()
	})
}

func TestATrialSubscribesToNoEvents(t *testing.T) {
	inVirtualTime(t, func(env *testEnv) {
		t := env.t
		lists := 0
		env.withDynamicInformers(func() bool { lists++; return true }).withPods()
		env.registersEvents("A", fwk.Node, "foos.v1.example.com")
		if _, err := env.Try(t.Context(), env.blueprint(1, "one", "A")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if lists > 0 {
			t.Errorf("foos are listed %d times during a trial", lists)
		}
	})
}
