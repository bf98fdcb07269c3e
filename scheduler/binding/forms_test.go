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

func TestATrimmedPodIsNotSeenAsChanged(t *testing.T) {
	for sentence, during := range map[string]func(w *testEnv){
		"while somebody else changes its status": func(w *testEnv) {
			w.cluster.UpdatePod(w.pod, func(p *v1.Pod) { p.Status.Message = "hello" })
		},
		"while the API server fails once": func(w *testEnv) {
			w.cluster.Inject(fakecluster.Fault{Verb: "bind", Err: internal})
		},
		"while Berth's own nomination is ahead of the informer": func(w *testEnv) {
			w.a.Statuses = nil // it has work to do at PreBind, so the nomination is written before
			w.a.OnPreBind = func(context.Context) { synctest.Wait() }
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			runInVirtualTime(t, func(w *testEnv) {
				during(w)
				if _, err := w.bindPod(); err != nil {
					t.Errorf("the attempt failed: %v", err)
				}
				if node := w.cluster.Pod(w.pod).Spec.NodeName; node != "n1" {
					t.Errorf("the pod is on %q", node)
				}
			})
		})
	}
}

func TestALostBindingIsInvalidBeforeResourcesAreFreed(t *testing.T) {
	runInVirtualTime(t, func(w *testEnv) {
		version := w.pod.ResourceVersion
		w.cluster.Inject(fakecluster.Fault{Verb: "bind", Err: internal, Times: 100})
		if _, err := w.bindPod(); err == nil || w.assumed() {
			t.Fatalf("error %v, assumed %t", err, w.assumed())
		}
		w.cluster.ClearFaults()
		late := w.cluster.CoreV1().Pods(w.pod.Namespace).Bind(w.ctx, &v1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: w.pod.Name, UID: w.pod.UID, ResourceVersion: version},
			Target:     v1.ObjectReference{Kind: "Node", Name: "n1"},
		}, metav1.CreateOptions{})
		if !apierrors.IsConflict(late) {
			t.Errorf("the Binding that was under way is answered %v, want a conflict", late)
		}
	})
}

func TestAPatchAnswerIsKeptWithoutACopyOfThePod(t *testing.T) {
	mark := func(w *testEnv, during func()) {
		w.cluster.Inject(fakecluster.Fault{Verb: "patch", Before: during})
		if err := w.status.writeBindFailure(w.ctx, w.pod, "", "marked"); err != nil {
			w.t.Error(err)
		}
	}
	for sentence, then := range map[string]func(w *testEnv) (kept *v1.Pod){
		"before it is delivered the pod that was decided about is kept": func(w *testEnv) *v1.Pod { return w.pod },
		"once it is delivered what was delivered is kept": func(w *testEnv) *v1.Pod {
			newest := w.informerPod()
			w.Observe(newest)
			return newest
		},
		"an older version changes nothing": func(w *testEnv) *v1.Pod {
			w.Observe(w.pod)
			return w.pod
		},
		"of a pod that is bound or gone nothing is kept": func(w *testEnv) *v1.Pod {
			w.Forget(w.pod.UID)
			return nil
		},
		"nor when it goes while it is patched": func(w *testEnv) *v1.Pod {
			w.Forget(w.pod.UID)
			mark(w, func() { w.Forget(w.pod.UID) })
			return nil
		},
		"what is delivered before the answer is kept": func(w *testEnv) *v1.Pod {
			newest := w.informerPod()
			newest.ResourceVersion = "1000000"
			mark(w, func() { w.Observe(newest) })
			return newest
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			runInVirtualTime(t, func(w *testEnv) {
				w.SetNotScheduled(w.pod, "Unschedulable", "no node fits", nil)
				synctest.Wait()
				want := then(w)
				w.status.mu.Lock()
				defer w.status.mu.Unlock()
				if got := w.status.known[w.pod.UID].pod; got != want {
					t.Errorf("kept is %p, want %p", got, want)
				}
			})
		})
	}
}

func TestAnAttemptOlderThanTheInformerIsBoundAtOnce(t *testing.T) {
	runInVirtualTime(t, func(w *testEnv) {
		w.SetNotScheduled(w.pod, "Unschedulable", "no node fits", nil)
		synctest.Wait()
		w.Observe(w.informerPod())
		w.calls()
		if _, err := w.bindPod(); err != nil { // of the pod as it was before
			t.Error(err)
		}
		wantLines(t, "calls", w.calls(), "bind web n1")
	})
}
