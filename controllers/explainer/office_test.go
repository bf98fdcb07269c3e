package explainer

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
)

// office is an explainer at work in virtual time, inside a synctest bubble.
type office struct {
	*shelf
	desk    *decision.Desk
	pods    cache.Indexer
	dropped int
	// binding says that pods are being bound.
	binding atomic.Bool
	// words is how long the last words may take, and begin what happens before.
	words time.Duration
	begin func()
	// close ends the explainer.
	close func()
}

// openOffice starts an explainer; stand are objects that are there.
func openOffice(t *testing.T, shelf *shelf, pods ...*corev1.Pod) *office {
	o := &office{
		shelf: shelf, desk: decision.NewDesk(time.Now),
		pods: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}),
	}
	o.desk.CountDroppedWith(func(string) { o.dropped++ })
	for _, pod := range pods {
		must(o.pods.Add(pod))
	}
	client, err := NewClient(&restclient.Config{Host: "http://shelf", Transport: shelf})
	must(err)
	x := New(Options{
		Busy: o.binding.Load, Desk: o.desk, Decisions: client, Pods: corelisters.NewPodLister(o.pods), PodsSynced: func() bool { return true }, Clock: clock.RealClock{},
		LastWords: func() (context.Context, context.CancelFunc) {
			if o.begin != nil {
				o.begin()
			}
			return context.WithTimeout(context.Background(), o.words)
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
	o.requests()
	return o
}

func newShelf() *shelf { return &shelf{objects: map[string]*v1alpha1.SchedulingDecision{}} }

// aPod is a pod of the namespace shop, whose UID is its name unless given.
func aPod(name string, uid ...types.UID) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)}}
	if len(uid) > 0 {
		pod.UID = uid[0]
	}
	return pod
}

// boundPod is one that was bound when that was.
func boundPod(name string, when time.Time) *corev1.Pod {
	pod := aPod(name)
	pod.Spec.NodeName = "n1"
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(when)}}
	return pod
}

// explain puts an explanation of a pod on the desk, and lets d pass.
func (o *office) explain(pod *corev1.Pod, message string, d time.Duration) {
	o.desk.Put(decision.Explanation{Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID, Status: decision.Status{
		Result: v1alpha1.ResultError, Message: message, Profile: v1alpha1.DecidedBy{Name: "batch"},
	}})
	pass(d)
}

// pass lets time pass, and what is due be done.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// body is what a request carries. It can be read again.
func body(r *http.Request) string {
	text, err := io.ReadAll(r.Body)
	must(err)
	r.Body = io.NopCloser(bytes.NewReader(text))
	return string(text)
}

// want holds the requests since the last call to a list.
func (o *office) want(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, o.requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func (o *office) holds(t *testing.T, name, want string) {
	t.Helper()
	if got := o.says(name); got != want {
		t.Errorf("%s says %q, want %q", name, got, want)
	}
}

// stands holds the objects that are there to a list, in the order of names.
func (o *office) stands(t *testing.T, want ...string) {
	t.Helper()
	for i, name := range want {
		want[i] = "shop/" + name
	}
	if diff := cmp.Diff(want, o.names("")); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}
