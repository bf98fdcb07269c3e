package scopedinformers

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"
)

var foos = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "foos"}

const fooEvents fwk.EventResource = "foos.v1.example.com"

// listeners is a world where somebody wants to hear of foos.
type eventTestEnv struct {
	*testEnv
	dynamic *fake.FakeDynamicClient

	mu           sync.Mutex
	events       []string
	serverErrors map[string]error // what the server says to a verb
}

// amongFoos runs play on virtual time.
func withFoos(t *testing.T, play func(l *eventTestEnv)) {
	synctest.Test(t, func(t *testing.T) {
		l := &eventTestEnv{testEnv: newTestEnv(t), serverErrors: map[string]error{}}
		l.dynamic = fake.NewSimpleDynamicClientWithCustomListKinds(scheme.Scheme, map[schema.GroupVersionResource]string{foos: "FooList"})
		l.dynamic.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			err := l.serverError("list")
			return err != nil, nil, err
		})
		l.dynamic.PrependWatchReactor("*", func(clienttesting.Action) (bool, watch.Interface, error) {
			err := l.serverError("watch")
			return err != nil, nil, err
		})
		l.pool.options.Dynamic, l.pool.options.OwnEvents = l.dynamic, []fwk.EventResource{fwk.Node}
		l.pool.options.OnEvent = func(happened fwk.ClusterEvent, before, after any) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.events = append(l.events, fmt.Sprintf("%v/%v %s>%s", happened.Resource, happened.ActionType, objectText(before), objectText(after)))
		}
		play(l)
	})
}

// state is what a hint sees of an object.
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

func (l *eventTestEnv) serverError(verb string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.serverErrors[verb]
}

// server has the server answer a verb with err.
func (l *eventTestEnv) setServerError(verb string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.serverErrors[verb] = err
}

func (l *eventTestEnv) subscribe(s *Factory, resource fwk.EventResource) {
	l.Helper()
	if err := s.Subscribe(resource); err != nil {
		l.Fatal(err)
	}
	synctest.Wait()
}

func (l *eventTestEnv) wantEvents(want ...string) {
	l.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if diff := cmp.Diff(want, l.events); diff != "" {
		l.Errorf("told (-want,+got):\n%s", diff)
	}
	l.events = nil
}

// wantDeaf compares what the scope says of foos.
func (l *eventTestEnv) wantMissedEvents(s *Factory, want string) {
	l.Helper()
	synctest.Wait()
	got := ""
	if err := s.MissedEvents()[fooEvents]; err != nil {
		got = err.Error()
	}
	if got != want {
		l.Errorf("deaf: %q, want %q", got, want)
	}
}

func (l *eventTestEnv) writeFoo(verb, name, is string) {
	l.Helper()
	foo := &unstructured.Unstructured{}
	foo.SetAPIVersion("example.com/v1")
	foo.SetKind("Foo")
	foo.SetName(name)
	foo.SetNamespace("default")
	foo.SetLabels(map[string]string{"is": is})
	in := l.dynamic.Resource(foos).Namespace("default")
	var err error
	switch verb {
	case "create":
		_, err = in.Create(l.Context(), foo, metav1.CreateOptions{})
	case "update":
		_, err = in.Update(l.Context(), foo, metav1.UpdateOptions{})
	case "delete":
		err = in.Delete(l.Context(), name, metav1.DeleteOptions{})
	}
	if err != nil {
		l.Fatal(err)
	}
}
