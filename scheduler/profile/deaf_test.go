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

	"github.com/berthdev/berth/scheduler/scopedinformers"
)

// hearing gives the world informers of resources that plugins name: those that
// served says are served.
func (w *testEnv) withDynamicInformers(served func() bool) *testEnv {
	kinds := map[schema.GroupVersionResource]string{{Group: "example.com", Version: "v1", Resource: "foos"}: "FooList"}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(scheme.Scheme, kinds)
	client.PrependReactor("list", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if served() {
			return false, nil, nil
		}
		return true, nil, apierrors.NewNotFound(action.GetResource().GroupResource(), "")
	})
	kubernetes := fake.NewClientset()
	w.options.Informers = scopedinformers.NewPool(scopedinformers.Options{
		Informers: informers.NewSharedInformerFactory(kubernetes, 0), Client: kubernetes, Dynamic: client,
		OwnEvents: []fwk.EventResource{fwk.Node}, OnEvent: func(fwk.ClusterEvent, any, any) {},
	})
	return w
}

// wants has a plugin want to hear of these resources.
func (w *testEnv) registersEvents(plugin string, resources ...fwk.EventResource) {
	w.blueprint(0, "", plugin)
	var events []fwk.ClusterEventWithHint
	for _, resource := range resources {
		events = append(events, fwk.ClusterEventWithHint{Event: fwk.ClusterEvent{Resource: resource, ActionType: fwk.Add}})
	}
	w.probes[plugin].Events = events
}

// ails compares what is wrong with what runs.
func (w *testEnv) wantDegradations(want ...string) {
	w.t.Helper()
	running, ok := w.Running("p")
	if !ok {
		w.t.Fatal("nothing runs")
	}
	starts := func(said, begin string) bool { return strings.HasPrefix(said, begin) }
	if !slices.EqualFunc(running.Degradations, want, starts) {
		w.t.Errorf("ailments (-want +got):\n%s", cmp.Diff(want, running.Degradations))
	}
}

func TestMissedEventsDegradeAProfileThatKeepsRunning(t *testing.T) {
	inVirtualTime(t, func(w *testEnv) {
		t := w.t
		var served, told atomic.Bool
		w.withDynamicInformers(served.Load)
		w.OnDegradedChange(func(name string) { told.Store(name == "p") })
		const nothing = "nothing is heard of foos.v1.example.com, which may wake pods that A refused: "
		w.registersEvents("A", fwk.Node, "foos.v1.example.com", "foos")
		w.apply(1, "one", "A")
		w.wantRunning("one", 1)
		w.wantDegradations("nothing is heard of foos, which may wake pods that A refused: ", nothing)

		served.Store(true)
		told.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		w.wantDegradations("nothing is heard of foos, which may wake pods that A refused: ")
		if !told.Load() {
			t.Error("nobody is told that foos are heard of")
		}

		w.registersEvents("B", fwk.Node)
		w.apply(2, "two", "B")
		w.wantDegradations()
		w.Delete("p")
		synctest.Wait()
	})
}

func TestATrialSubscribesToNoEvents(t *testing.T) {
	inVirtualTime(t, func(w *testEnv) {
		t := w.t
		asked := 0
		w.withDynamicInformers(func() bool { asked++; return true }).withPods()
		w.registersEvents("A", fwk.Node, "foos.v1.example.com")
		if _, err := w.Try(t.Context(), w.blueprint(1, "one", "A")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if asked > 0 {
			t.Errorf("foos are listed %d times on trial", asked)
		}
	})
}
