package scopedinformers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"
)

var foos = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "foos"}

const fooEvents fwk.EventResource = "foos.v1.example.com"

// eventTestEnv is a testEnv with a dynamic client for foos.
type eventTestEnv struct {
	*testEnv
	dynamic *fake.FakeDynamicClient

	mu           sync.Mutex
	events       []string
	serverErrors map[string]error // by verb
	// fooUID is the UID of the objects that writeFoo writes.
	fooUID types.UID
}

// init removes client-go's limit on the rate of errors: it sleeps until a millisecond after the
// last error, which is years from now where that was in real time and now is virtual, and an
// informer that sleeps does not stop before the test ends.
func init() { utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1] }

// withFoos runs test in virtual time.
func withFoos(t *testing.T, test func(e *eventTestEnv)) {
	synctest.Test(t, func(t *testing.T) {
		e := &eventTestEnv{testEnv: newTestEnv(t), serverErrors: map[string]error{}}
		e.dynamic = fake.NewSimpleDynamicClientWithCustomListKinds(scheme.Scheme, map[schema.GroupVersionResource]string{foos: "FooList"})
		e.dynamic.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			err := e.serverError("list")
			return err != nil, nil, err
		})
		e.dynamic.PrependWatchReactor("*", func(clienttesting.Action) (bool, watch.Interface, error) {
			err := e.serverError("watch")
			return err != nil, nil, err
		})
		e.pool.options.Dynamic, e.pool.options.OwnEvents = e.dynamic, []fwk.EventResource{fwk.Node}
		e.pool.options.Queue = e
		test(e)
	})
}

// Event implements EventQueue.
func (e *eventTestEnv) Event(_ context.Context, happened fwk.ClusterEvent, before, after any, _ func(*v1.Pod) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events = append(e.events, fmt.Sprintf("%v/%v %s>%s", happened.Resource, happened.ActionType, objectText(before), objectText(after)))
}

// objectText is the state of an object that a queueing hint sees.
func objectText(obj any) string {
	switch o := obj.(type) {
	case nil:
		return ""
	case *unstructured.Unstructured:
		return o.GetName() + o.GetLabels()["is"]
	case *v1.PersistentVolume:
		return "PersistentVolume " + o.Name
	}
	return fmt.Sprintf("%T", obj)
}

func (e *eventTestEnv) serverError(verb string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.serverErrors[verb]
}

// setServerError makes the server answer a verb with err.
func (e *eventTestEnv) setServerError(verb string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.serverErrors[verb] = err
}

func (e *eventTestEnv) subscribe(s *Factory, resource fwk.EventResource) {
	e.Helper()
	if err := s.Subscribe(resource); err != nil {
		e.Fatal(err)
	}
	synctest.Wait()
}

func (e *eventTestEnv) wantEvents(want ...string) {
	e.Helper()
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	if diff := cmp.Diff(want, e.events); diff != "" {
		e.Errorf("events (-want,+got):\n%s", diff)
	}
	e.events = nil
}

// wantMissedEvents compares the reason why events of foos are missed.
func (e *eventTestEnv) wantMissedEvents(s *Factory, want string) {
	e.Helper()
	synctest.Wait()
	got := ""
	if err := s.MissedEvents()[fooEvents]; err != nil {
		got = err.Error()
	}
	if got != want {
		e.Errorf("missed events: %q, want %q", got, want)
	}
}

func (e *eventTestEnv) writeFoo(verb, name, is string) {
	e.Helper()
	foo := &unstructured.Unstructured{}
	foo.SetAPIVersion("example.com/v1")
	foo.SetKind("Foo")
	foo.SetName(name)
	foo.SetNamespace("default")
	foo.SetUID(e.fooUID)
	foo.SetLabels(map[string]string{"is": is})
	in := e.dynamic.Resource(foos).Namespace("default")
	var err error
	switch verb {
	case "create":
		_, err = in.Create(e.Context(), foo, metav1.CreateOptions{})
	case "update":
		_, err = in.Update(e.Context(), foo, metav1.UpdateOptions{})
	case "delete":
		err = in.Delete(e.Context(), name, metav1.DeleteOptions{})
	}
	if err != nil {
		e.Fatal(err)
	}
}

var (
	notServed = apierrors.NewGenericServerResponse(404, "list", foos.GroupResource(), "", "", 0, true)
	forbidden = apierrors.NewForbidden(foos.GroupResource(), "", errors.New("no rule"))
)

func TestEventsOfACustomResourceAreDeliveredWhileAFactorySubscribes(t *testing.T) {
	withFoos(t, func(e *eventTestEnv) {
		e.writeFoo("create", "a", "")
		first, second := e.pool.NewFactory(nil), e.pool.NewFactory(nil)
		e.subscribe(first, fooEvents)
		e.wantEvents("foos.v1.example.com/Add >a")
		e.subscribe(second, fooEvents)
		if left := len(first.Pending()) + len(second.Pending()); left != 0 || e.pool.PluginInformers() != 1 {
			t.Errorf("%d things are pending, %d informers run", left, e.pool.PluginInformers())
		}
		e.writeFoo("update", "a", " new")
		e.writeFoo("delete", "a", "")
		e.wantEvents("foos.v1.example.com/Update a>a new", "foos.v1.example.com/Delete a new>")
		first.Close()
		e.writeFoo("create", "b", "")
		e.wantEvents("foos.v1.example.com/Add >b")
		second.Close()
		if e.pool.PluginInformers() != 0 {
			t.Error("the informer still runs")
		}
		e.writeFoo("create", "c", "")
		e.wantEvents()
		if err := second.Subscribe(fooEvents); err != ErrClosed {
			t.Errorf("Subscribe after Close: %v, want ErrClosed", err)
		}
	})
}

// After a lost watch the informer delivers an object that takes the place of another one as an
// update of that.
func TestACustomResourceThatTakesThePlaceOfAnotherIsADeletionAndAnAddition(t *testing.T) {
	withFoos(t, func(e *eventTestEnv) {
		s := e.pool.NewFactory(nil)
		defer s.Close()
		e.subscribe(s, fooEvents)
		e.writeFoo("create", "a", "")
		e.wantEvents("foos.v1.example.com/Add >a")
		e.fooUID = "another"
		e.writeFoo("update", "a", " new")
		e.wantEvents("foos.v1.example.com/Delete a>", "foos.v1.example.com/Add >a new")
	})
}

func TestACustomResourceDeliversEventsOnceItIsServed(t *testing.T) {
	withFoos(t, func(e *eventTestEnv) {
		e.setServerError("list", notServed)
		changes := 0
		s := e.pool.NewFactory(func() { changes++ })
		defer s.Close()
		e.subscribe(s, fooEvents)
		if len(s.Pending()) != 0 {
			t.Error("the subscription is pending")
		}
		e.wantMissedEvents(s, "listing them: "+notServed.Error())
		time.Sleep(time.Minute)
		synctest.Wait()
		if changes != 1 {
			t.Errorf("%d calls after the resource could not be watched", changes)
		}
		e.writeFoo("create", "a", "")
		e.setServerError("list", nil)
		time.Sleep(retryInterval)
		e.wantEvents("foos.v1.example.com/Add >a")
		e.wantMissedEvents(s, "")
		if changes != 2 {
			t.Errorf("%d calls in total", changes)
		}
	})
}

func TestAMissingPermissionIsReported(t *testing.T) {
	for verb, want := range map[string]string{
		"list":  "listing them: " + forbidden.Error(),
		"watch": "watching them: " + forbidden.Error(),
	} {
		t.Run(verb, func(t *testing.T) {
			withFoos(t, func(e *eventTestEnv) {
				e.setServerError(verb, forbidden)
				s := e.pool.NewFactory(nil)
				defer s.Close()
				e.subscribe(s, fooEvents)
				e.wantMissedEvents(s, want)
				e.setServerError(verb, nil)
				time.Sleep(retryInterval)
				e.wantMissedEvents(s, "")
				e.writeFoo("create", "a", "")
				e.wantEvents("foos.v1.example.com/Add >a")
			})
		})
	}
}

func TestALostPermissionIsReported(t *testing.T) {
	withFoos(t, func(e *eventTestEnv) {
		watches := make(chan *watch.RaceFreeFakeWatcher, 10)
		e.dynamic.PrependWatchReactor("*", func(clienttesting.Action) (bool, watch.Interface, error) {
			if err := e.serverError("watch"); err != nil {
				return true, nil, err
			}
			w := watch.NewRaceFreeFake()
			watches <- w
			return true, w, nil
		})
		s := e.pool.NewFactory(nil)
		defer s.Close()
		e.subscribe(s, fooEvents)
		e.wantMissedEvents(s, "")
		e.setServerError("watch", forbidden)
		e.setServerError("list", forbidden)
		for len(watches) > 0 {
			(<-watches).Stop()
		}
		time.Sleep(5 * time.Minute)
		e.wantMissedEvents(s, "listing them: "+forbidden.Error())
		e.setServerError("watch", nil)
		e.setServerError("list", nil)
		time.Sleep(retryInterval)
		e.wantMissedEvents(s, "")
	})
}

func TestAnInvalidResourceNameIsRefused(t *testing.T) {
	withFoos(t, func(e *eventTestEnv) {
		s := e.pool.NewFactory(nil)
		defer s.Close()
		for _, name := range []fwk.EventResource{"Foo", "foos.v1", "..", ""} {
			if err := s.Subscribe(name); err == nil || !strings.Contains(err.Error(), "want plural.version.group, such as foos.v1.example.com") {
				t.Errorf("%q: %v", name, err)
			}
		}
		for _, name := range []fwk.EventResource{fwk.Node, fwk.PersistentVolume} {
			if err := s.Subscribe(name); err != nil {
				t.Errorf("%q: %v", name, err)
			}
		}
	})
}

// The lister of that informer holds the same objects, which are not stored twice.
func TestTypedEventsShareThePluginInformer(t *testing.T) {
	withFoos(t, func(e *eventTestEnv) {
		s := e.pool.NewFactory(nil)
		defer s.Close()
		s.Core().V1().PersistentVolumes().Lister()
		e.subscribe(s, fwk.PersistentVolume)
		if e.pool.PluginInformers() != 1 {
			t.Errorf("%d informers", e.pool.PluginInformers())
		}
		volume := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}}
		if _, err := e.client.CoreV1().PersistentVolumes().Create(t.Context(), volume, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		e.wantEvents("PersistentVolume/Add >PersistentVolume v")
	})
}

// On a cluster without PodGroups, which is every default one, GangScheduling registers their
// events as everywhere.
func TestAKindWithoutAStableVersionThatIsNotServedHasNoEvents(t *testing.T) {
	withFoos(t, func(e *eventTestEnv) {
		e.pool.options.NotServed = []runtime.Object{&schedulingv1beta1.PodGroup{}, &storagev1.CSINode{}}
		e.setServerError("list", notServed)
		s := e.pool.NewFactory(nil)
		defer s.Close()
		e.subscribe(s, fwk.PodGroup)
		e.subscribe(s, fwk.CSINode)
		missed := slices.Collect(maps.Keys(s.MissedEvents()))
		if diff := cmp.Diff([]fwk.EventResource{fwk.CSINode}, missed); diff != "" {
			t.Errorf("missed events (-want +got):\n%s", diff)
		}
	})
}
