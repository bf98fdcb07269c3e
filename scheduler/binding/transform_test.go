package binding

import (
	"context"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/support/fakecluster"
)

// The informer trims commands, environments and probes, and the API server answers
// with them: that is not a change of the pod.

func TestATrimmedPodIsNotSeenAsChanged(t *testing.T) {
	for name, during := range map[string]func(env *testEnv){
		"while another writer changes its status": func(env *testEnv) {
			env.cluster.UpdatePod(env.pod, func(p *v1.Pod) { p.Status.Message = "hello" })
		},
		"while the API server fails once": func(env *testEnv) {
			env.cluster.Inject(fakecluster.Fault{Verb: "bind", Err: internal})
		},
		"while the informer lags behind our own nomination": func(env *testEnv) {
			env.a.Statuses = nil // PreBind has work to do, so that the nomination is written
			env.a.OnPreBind = func(context.Context) { synctest.Wait() }
		},
	} {
		t.Run(name, func(t *testing.T) {
			runInVirtualTime(t, func(env *testEnv) {
				during(env)
				if _, err := env.bindPod(); err != nil {
					t.Errorf("the attempt failed: %v", err)
				}
				if node := env.cluster.Pod(env.pod).Spec.NodeName; node != "n1" {
					t.Errorf("the pod is on %q", node)
				}
			})
		})
	}
}

func TestALostBindingIsInvalidBeforeResourcesAreFreed(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		version := env.pod.ResourceVersion
		env.cluster.Inject(fakecluster.Fault{Verb: "bind", Err: internal, Times: 100})
		if _, err := env.bindPod(); err == nil || env.assumed() {
			t.Fatalf("error %v, assumed %t", err, env.assumed())
		}
		env.cluster.ClearFaults()
		late := env.cluster.CoreV1().Pods(env.pod.Namespace).Bind(env.ctx, &v1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: env.pod.Name, UID: env.pod.UID, ResourceVersion: version},
			Target:     v1.ObjectReference{Kind: "Node", Name: "n1"},
		}, metav1.CreateOptions{})
		if !apierrors.IsConflict(late) {
			t.Errorf("the lost Binding was answered with %v, want a conflict", late)
		}
	})
}

func TestAPatchAnswerIsKeptWithoutACopyOfThePod(t *testing.T) {
	patch := func(env *testEnv, during func()) {
		env.cluster.Inject(fakecluster.Fault{Verb: "patch", Before: during})
		if err := env.status.writeBindFailure(env.ctx, env.pod, "", "marked"); err != nil {
			env.t.Error(err)
		}
	}
	for name, then := range map[string]func(env *testEnv) (kept *v1.Pod){
		"before the informer delivers it, the pod that was decided about is kept": func(env *testEnv) *v1.Pod { return env.pod },
		"the delivered pod is kept": func(env *testEnv) *v1.Pod {
			newest := env.informerPod()
			env.Observe(newest)
			return newest
		},
		"an older version changes nothing": func(env *testEnv) *v1.Pod {
			env.Observe(env.pod)
			return env.pod
		},
		"nothing is kept of a pod that is bound or gone": func(env *testEnv) *v1.Pod {
			env.Forget(env.pod.UID)
			return nil
		},
		"nothing is kept of a pod that goes during a patch": func(env *testEnv) *v1.Pod {
			env.Forget(env.pod.UID)
			patch(env, func() { env.Forget(env.pod.UID) })
			return nil
		},
		"a pod that is delivered before the answer is kept": func(env *testEnv) *v1.Pod {
			newest := env.informerPod()
			newest.ResourceVersion = "1000000"
			patch(env, func() { env.Observe(newest) })
			return newest
		},
	} {
		t.Run(name, func(t *testing.T) {
			runInVirtualTime(t, func(env *testEnv) {
				env.SetNotScheduled(env.pod, "Unschedulable", "no node fits", nil)
				synctest.Wait()
				want := then(env)
				env.status.mu.Lock()
				defer env.status.mu.Unlock()
				if got := env.status.known[env.pod.UID].pod; got != want {
					t.Errorf("kept is %p, want %p", got, want)
				}
			})
		})
	}
}

func TestAnAttemptOlderThanTheInformerIsBoundAtOnce(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		env.SetNotScheduled(env.pod, "Unschedulable", "no node fits", nil)
		synctest.Wait()
		env.Observe(env.informerPod())
		env.calls()
		if _, err := env.bindPod(); err != nil { // of the pod's version before the update
			t.Error(err)
		}
		wantLines(t, "calls", env.calls(), "bind web n1")
	})
}
