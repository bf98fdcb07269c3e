package eventhandlers

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/test/support/fixture"
)

// hintRecorder records the events that a plugin's hint gets, oldest first.
type hintRecorder struct {
	mu     sync.Mutex
	events []string
}

// hint records an event and returns QueueSkip.
func (h *hintRecorder) hint(_ klog.Logger, _ *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case oldObj == nil:
		h.events = append(h.events, "added")
	case newObj == nil:
		h.events = append(h.events, "deleted")
	default:
		h.events = append(h.events, "updated")
	}
	return fwk.QueueSkip, nil
}

func (h *hintRecorder) recorded() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.events)
}

// queueWithHint returns a queue with one pod, refused by a plugin that registered for
// one resource, and the recorder of the plugin's events.
func queueWithHint(t *testing.T, resource fwk.EventResource) (*queue.Queue, *hintRecorder) {
	t.Helper()
	q, h := queue.New(queue.Options{Clock: clock.RealClock{}}), &hintRecorder{}
	changed := fwk.ClusterEvent{Resource: resource, ActionType: fwk.Add | fwk.Update | fwk.Delete}
	q.SetProfile(t.Context(), "p", &queue.Rules{
		Less:       func(fwk.QueuedEntityInfo, fwk.QueuedEntityInfo) bool { return false },
		Hold:       func(*v1.Pod) queue.Hold { return queue.Hold{} },
		PreEnqueue: func(context.Context, *v1.Pod, string) string { return "" },
		Hints:      []queue.Hint{{Plugin: "Picky", Event: changed, Fn: h.hint}},
	})
	q.Add(t.Context(), fixture.Pod("new").SchedulerName("p").Obj())
	attempt := q.TryPop()
	if attempt == nil {
		t.Fatal("the pod was not popped")
	}
	attempt.Refused(t.Context(), sets.New("Picky"), nil)
	return q, h
}

// startHandlers registers handlers that pass events to q with the informers of client, and waits
// until they have processed the initial lists. They end with the test.
func startHandlers(t *testing.T, client kubernetes.Interface, q *queue.Queue, storage Storage) {
	t.Helper()
	handlers := New(Options{
		PendingPods: &PendingPods{Cache: cache.New(), Queue: q, WaitingPods: framework.NewWaitingPods(clock.RealClock{}), Log: klog.Background()},
		Storage:     storage,
	})
	factory := NewInformers(client, Trim(false))
	synced, err := handlers.Register(factory)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(factory.Shutdown)
	t.Cleanup(stop)
	factory.Start(ctx.Done())
	if !synced(ctx) {
		t.Fatal("the handlers are not synced")
	}
}

func TestEventsOfOtherResources(t *testing.T) {
	for name, c := range map[string]struct {
		resource fwk.EventResource
		// irrelevant is the object after an update that is no event, relevant after
		// one that is.
		object, irrelevant, relevant runtime.Object
	}{
		"labels of a Namespace": {
			resource: framework.Namespace, object: fixture.Namespace("shop").Obj(),
			irrelevant: annotated(fixture.Namespace("shop").Obj()), relevant: fixture.Namespace("shop").Label("team", "x").Obj(),
		},
		"selector of a Service": {
			resource: framework.Service, object: fixture.Service("web", "app", "web"),
			irrelevant: annotated(fixture.Service("web", "app", "web")), relevant: fixture.Service("web", "app", "db"),
		},
		"selector of a ReplicationController": {
			resource: framework.ReplicationController, object: fixture.ReplicationController("web", "app", "web"),
			irrelevant: annotated(fixture.ReplicationController("web", "app", "web")), relevant: fixture.ReplicationController("web", "app", "db"),
		},
		"selector of a ReplicaSet": {
			resource: framework.ReplicaSet, object: fixture.ReplicaSet("web", "app", "web"),
			irrelevant: annotated(fixture.ReplicaSet("web", "app", "web")), relevant: fixture.ReplicaSet("web", "app", "db"),
		},
		"selector of a StatefulSet": {
			resource: framework.StatefulSet, object: fixture.StatefulSet("web", "app", "web"),
			irrelevant: annotated(fixture.StatefulSet("web", "app", "web")), relevant: fixture.StatefulSet("web", "app", "db"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(c.object)
			q, recorder := queueWithHint(t, c.resource)
			startHandlers(t, client, q, Storage{})
			if diff := cmp.Diff([]string{"added"}, recorder.recorded()); diff != "" {
				t.Fatalf("events after the sync (-want +got):\n%s", diff)
			}
			update(t, client, c.irrelevant)
			update(t, client, c.relevant)
			remove(t, client, c.object)
			want := []string{"added", "updated", "deleted"}
			err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true,
				func(context.Context) (bool, error) { return slices.Contains(recorder.recorded(), "deleted"), nil })
			if diff := cmp.Diff(want, recorder.recorded()); diff != "" || err != nil {
				t.Errorf("events in the end: %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// annotated sets an annotation, which scheduling does not read.
func annotated[T metav1.Object](object T) T {
	object.SetAnnotations(map[string]string{"note": "new"})
	return object
}

func update(t *testing.T, client *fake.Clientset, object runtime.Object) {
	t.Helper()
	var err error
	switch o := object.(type) {
	case *v1.Namespace:
		_, err = client.CoreV1().Namespaces().Update(t.Context(), o, metav1.UpdateOptions{})
	case *v1.Service:
		_, err = client.CoreV1().Services(o.Namespace).Update(t.Context(), o, metav1.UpdateOptions{})
	case *v1.ReplicationController:
		_, err = client.CoreV1().ReplicationControllers(o.Namespace).Update(t.Context(), o, metav1.UpdateOptions{})
	case *appsv1.ReplicaSet:
		_, err = client.AppsV1().ReplicaSets(o.Namespace).Update(t.Context(), o, metav1.UpdateOptions{})
	case *appsv1.StatefulSet:
		_, err = client.AppsV1().StatefulSets(o.Namespace).Update(t.Context(), o, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, client *fake.Clientset, object runtime.Object) {
	t.Helper()
	var err error
	switch o := object.(type) {
	case *v1.Namespace:
		err = client.CoreV1().Namespaces().Delete(t.Context(), o.Name, metav1.DeleteOptions{})
	case *v1.Service:
		err = client.CoreV1().Services(o.Namespace).Delete(t.Context(), o.Name, metav1.DeleteOptions{})
	case *v1.ReplicationController:
		err = client.CoreV1().ReplicationControllers(o.Namespace).Delete(t.Context(), o.Name, metav1.DeleteOptions{})
	case *appsv1.ReplicaSet:
		err = client.AppsV1().ReplicaSets(o.Namespace).Delete(t.Context(), o.Name, metav1.DeleteOptions{})
	case *appsv1.StatefulSet:
		err = client.AppsV1().StatefulSets(o.Namespace).Delete(t.Context(), o.Name, metav1.DeleteOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}
