package explainer

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/explain"
)

// testEnv is a running explainer in virtual time, inside a synctest bubble.
type testEnv struct {
	*fakeServer
	queue   *explain.Queue
	pods    cache.Indexer
	dropped int
	// binding says that pods are being bound.
	binding atomic.Bool
	// finalWriteTime is how long the final writes may take, and beforeFinalWrites is
	// called before them.
	finalWriteTime    time.Duration
	beforeFinalWrites func()
	// close stops the explainer.
	close func()
}

// Dropped implements explain.DropCounter.
func (o *testEnv) Dropped(string) { o.dropped++ }

// newTestEnv starts an explainer with a server and the given pods.
func newTestEnv(t *testing.T, server *fakeServer, pods ...*corev1.Pod) *testEnv {
	o := &testEnv{
		fakeServer: server,
		pods:       cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}),
	}
	o.queue = explain.NewQueue(time.Now, o)
	for _, pod := range pods {
		must(o.pods.Add(pod))
	}
	client, err := NewClient(&restclient.Config{Host: "http://server", Transport: server})
	must(err)
	x := New(Options{
		BindsInProgress: o.binding.Load, Queue: o.queue, Client: client, Pods: corelisters.NewPodLister(o.pods), PodsSynced: func() bool { return true }, Clock: clock.RealClock{},
		FinalWrites: func() (context.Context, context.CancelFunc) {
			if o.beforeFinalWrites != nil {
				o.beforeFinalWrites()
			}
			return context.WithTimeout(context.Background(), o.finalWriteTime)
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- x.Start(ctx) }()
	o.close = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(o.close)
	synctest.Wait()
	o.takeRequests()
	return o
}

func newFakeServer() *fakeServer {
	return &fakeServer{objects: map[string]*v1alpha1.SchedulingDecision{}}
}

// newPod returns a pod in the namespace shop, whose UID is its name unless given.
func newPod(name string, uid ...types.UID) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)}}
	if len(uid) > 0 {
		pod.UID = uid[0]
	}
	return pod
}

// newBoundPod returns a pod that was bound at a time.
func newBoundPod(name string, when time.Time) *corev1.Pod {
	pod := newPod(name)
	pod.Spec.NodeName = "n1"
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(when)}}
	return pod
}

// explain puts an explanation of a pod into the queue, and lets d pass.
func (o *testEnv) explain(pod *corev1.Pod, message string, d time.Duration) {
	o.queue.Put(decision.Explanation{Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID, Status: v1alpha1.SchedulingDecisionStatus{
		Result: v1alpha1.ResultError, Message: message, Profile: v1alpha1.DecidedBy{Name: "batch"},
	}})
	advance(d)
}

// advance lets d pass, and what is due be done.
func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// bodyOf returns the body of a request, which can be read again.
func bodyOf(r *http.Request) string {
	text, err := io.ReadAll(r.Body)
	must(err)
	r.Body = io.NopCloser(bytes.NewReader(text))
	return string(text)
}

// listRequest lists all objects.
const listRequest = "GET " + schedulingDecisions

// wantRequests compares the requests since the last call, without those that list all objects.
func (o *testEnv) wantRequests(t *testing.T, want ...string) {
	t.Helper()
	got := slices.DeleteFunc(o.takeRequests(), func(request string) bool { return request == listRequest })
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func (o *testEnv) wantMessage(t *testing.T, name, want string) {
	t.Helper()
	if got := o.message(name); got != want {
		t.Errorf("%s is %q, want %q", name, got, want)
	}
}

// wantObjects compares the names of the objects, sorted.
func (o *testEnv) wantObjects(t *testing.T, want ...string) {
	t.Helper()
	for i, name := range want {
		want[i] = "shop/" + name
	}
	if diff := cmp.Diff(want, o.names("")); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}
