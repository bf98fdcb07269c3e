package binding

import (
	"context"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/fakecluster"
)

// The informer keeps no commands, environments and probes, and the API server answers
// with them: neither is a change of the pod.

func TestAPodThatInformersTrimKeepsItsAttempt(t *testing.T) {
	for sentence, during := range map[string]func(w *world){
		"while somebody else changes its status": func(w *world) {
			w.cluster.Change(w.pod, func(p *v1.Pod) { p.Status.Message = "hello" })
		},
		"while the API server fails once": func(w *world) {
			w.cluster.Inject(fakecluster.Fault{Verb: "bind", Err: internal})
		},
		"while Berth's own nomination is ahead of the informer": func(w *world) {
			w.a.On = nil // it has work to do at PreBind, so the nomination is written before
			w.a.During = func(context.Context) { synctest.Wait() }
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			inTime(t, func(w *world) {
				during(w)
				if _, err := w.fly(); err != nil {
					t.Errorf("the attempt failed: %v", err)
				}
				if node := w.cluster.Pod(w.pod).Spec.NodeName; node != "n1" {
					t.Errorf("the pod is on %q", node)
				}
			})
		})
	}
}

func TestNoBindingIsOpenWhenTheRoomIsGivenBack(t *testing.T) {
	inTime(t, func(w *world) {
		version := w.pod.ResourceVersion
		w.cluster.Inject(fakecluster.Fault{Verb: "bind", Err: internal, Times: 100})
		if _, err := w.fly(); err == nil || w.assumed() {
			t.Fatalf("error %v, assumed %t", err, w.assumed())
		}
		w.cluster.Heal()
		late := w.cluster.CoreV1().Pods(w.pod.Namespace).Bind(w.ctx, &v1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: w.pod.Name, UID: w.pod.UID, ResourceVersion: version},
			Target:     v1.ObjectReference{Kind: "Node", Name: "n1"},
		}, metav1.CreateOptions{})
		if !apierrors.IsConflict(late) {
			t.Errorf("the Binding that was under way is answered %v, want a conflict", late)
		}
	})
}

func TestWhatAPatchToldIsRememberedUntilTheInformerDeliversIt(t *testing.T) {
	for sentence, c := range map[string]struct {
		then func(w *world)
		want int
	}{
		"before it is delivered":            {func(*world) {}, 1},
		"once it is delivered":              {func(w *world) { w.Observe(w.delivered()) }, 0},
		"an older version changes nothing":  {func(w *world) { w.Observe(w.pod) }, 1},
		"a pod that is bound is not needed": {func(w *world) { w.Forget(w.pod.UID) }, 0},
		"nor one that is gone and patched at": {func(w *world) {
			w.Forget(w.pod.UID)
			w.cluster.Inject(fakecluster.Fault{Verb: "patch", Before: func() { w.Forget(w.pod.UID) }})
			if err := w.status.mark(w.ctx, w.pod, "", "marked"); err != nil {
				w.t.Error(err)
			}
		}, 0},
		"nor what is delivered before the answer": {func(w *world) {
			w.Forget(w.pod.UID)
			w.cluster.Inject(fakecluster.Fault{Verb: "patch", Err: nil, Before: func() {
				newest := w.delivered()
				newest.ResourceVersion = "1000000"
				w.Observe(newest)
			}})
			if err := w.status.mark(w.ctx, w.pod, "", "marked"); err != nil {
				w.t.Error(err)
			}
		}, 0},
	} {
		t.Run(sentence, func(t *testing.T) {
			inTime(t, func(w *world) {
				w.Refuse(w.pod, "Unschedulable", "no node fits", nil)
				synctest.Wait()
				w.status.mu.Lock()
				if told := w.status.known[w.pod.UID]; told.like != w.pod {
					t.Error("a second copy of the pod is kept")
				}
				w.status.mu.Unlock()
				c.then(w)
				w.status.mu.Lock()
				defer w.status.mu.Unlock()
				if got := len(w.status.known); got != c.want {
					t.Errorf("%d pods are remembered, want %d", got, c.want)
				}
			})
		})
	}
}
