package binding

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fakecluster"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/probe"
)

var (
	forbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web", errors.New("no"))
	internal  = apierrors.NewInternalError(errors.New("etcd is slow"))
)

// denied is the answer of an API server whose admission webhook denies a write.
var denied = error(&apierrors.StatusError{ErrStatus: metav1.Status{
	Status: metav1.StatusFailure, Code: http.StatusBadRequest, Message: `admission webhook "policy.example.com" denied the request`,
}})

// bindTest is a case of TestBindOutcomes.
type bindTest struct {
	// before runs between the decision and the Binding.
	before func(env *testEnv)
	// faults are failures of the API server.
	faults []fakecluster.Fault
	// calls are the expected binds and reads.
	calls []string
	// err is what Finish returns; errAny stands for any error.
	err error
	// after is the pod's node at the end, "" for none.
	after string
}

var errAny = errors.New("any error")

var bindTests = map[string]bindTest{
	"a pod is bound by one write": {
		calls: []string{"bind web n1"}, after: "n1",
	},
	"a pod that changed in what scheduling does not read is bound again at once": {
		before: func(env *testEnv) { env.cluster.UpdatePod(env.pod, func(p *v1.Pod) { p.Status.Message = "hello" }) },
		calls:  []string{"bind web n1", "get web", "bind web n1"}, after: "n1",
	},
	"a change that scheduling reads ends the attempt": {
		before: func(env *testEnv) {
			env.cluster.UpdatePod(env.pod, func(p *v1.Pod) { p.Labels = map[string]string{"a": "b"} })
		},
		calls: []string{"bind web n1", "get web"}, err: errPodChanged,
	},
	"a change that our own patch shows ends the attempt, too": {
		before: func(env *testEnv) {
			env.a.Statuses = nil // PreBind has work to do, so that the nomination is written
			env.a.OnPreBind = func(context.Context) { synctest.Wait() }
			env.cluster.UpdatePod(env.pod, func(p *v1.Pod) { p.Labels = map[string]string{"a": "b"} })
		},
		calls: []string{"get web", "bind web n1", "get web"}, err: errPodChanged,
	},
	"a change that scheduling does not read, shown by our own patch, does not end the attempt": {
		before: func(env *testEnv) {
			env.a.Statuses = nil
			env.a.OnPreBind = func(context.Context) { synctest.Wait() }
			env.cluster.UpdatePod(env.pod, func(p *v1.Pod) { p.Status.Message = "hello" })
		},
		calls: []string{"get web", "bind web n1"}, after: "n1",
	},
	"a change that a patch of an earlier attempt shows ends the attempt while the informer lags": {
		before: func(env *testEnv) {
			env.cluster.UpdatePod(env.pod, func(p *v1.Pod) { p.Labels = map[string]string{"a": "b"} })
			env.SetNotScheduled(env.pod, "Unschedulable", "no node fits", nil)
			synctest.Wait()
		},
		calls: []string{"get web", "bind web n1", "get web"}, err: errPodChanged,
	},
	"an annotation, which a plugin may have written in PreBind, does not end the attempt": {
		before: func(env *testEnv) {
			env.cluster.UpdatePod(env.pod, func(p *v1.Pod) { p.Annotations = map[string]string{"chosen-by": "a plugin"} })
		},
		calls: []string{"bind web n1", "get web", "bind web n1"}, after: "n1",
	},
	"a pod that another scheduler bound is not touched": {
		before: func(env *testEnv) { env.cluster.UpdatePod(env.pod, func(p *v1.Pod) { p.Spec.NodeName = "n2" }) },
		calls:  []string{"bind web n1", "get web"}, err: ErrGone, after: "n2",
	},
	"a pod that another scheduler bound to the same node is bound": {
		before: func(env *testEnv) { env.cluster.UpdatePod(env.pod, func(p *v1.Pod) { p.Spec.NodeName = "n1" }) },
		calls:  []string{"bind web n1", "get web"}, after: "n1",
	},
	"a deleted pod is gone": {
		before: func(env *testEnv) { env.cluster.DeletePod(env.pod) },
		calls:  []string{"bind web n1", "get web"}, err: ErrGone,
	},
	"a terminating pod is gone": {
		before: func(env *testEnv) {
			env.cluster.UpdatePod(env.pod, func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} })
		},
		calls: []string{"bind web n1", "get web"}, err: ErrGone,
	},
	"another pod of the same name is left alone": {
		before: func(env *testEnv) {
			env.cluster.DeletePod(env.pod)
			env.cluster.Apply(fixture.Pod("web").UID("another").Obj())
		},
		calls: []string{"bind web n1", "get web"}, err: ErrGone,
	},
	"an error after the Binding was stored is detected by a read": {
		faults: []fakecluster.Fault{{Verb: "bind", Err: internal, Committed: true}},
		calls:  []string{"bind web n1", "get web"}, after: "n1",
	},
	"after an error before the Binding was stored the pod is bound again": {
		faults: []fakecluster.Fault{{Verb: "bind", Err: internal}},
		calls:  []string{"bind web n1", "get web", "bind web n1"}, after: "n1",
	},
	"a lost answer is detected by a read": {
		faults: []fakecluster.Fault{{Verb: "bind", Err: context.DeadlineExceeded, Committed: true}},
		calls:  []string{"bind web n1", "get web"}, after: "n1",
	},
	"a failed read is repeated until it succeeds": {
		faults: []fakecluster.Fault{{Verb: "bind", Err: internal, Committed: true}, {Verb: "get", Err: internal, Times: 3}},
		calls:  []string{"bind web n1", "get web", "get web", "get web", "get web"}, after: "n1",
	},
	"a Binding that always fails is given up": {
		faults: []fakecluster.Fault{{Verb: "bind", Err: internal, Times: 100}},
		calls: []string{"bind web n1", "get web", "bind web n1", "get web", "bind web n1", "get web",
			"bind web n1", "get web", "bind web n1", "get web", "bind web n1", "get web"},
		err: internal,
	},
	"a forbidden Binding is not repeated": {
		faults: []fakecluster.Fault{{Verb: "bind", Err: forbidden}},
		calls:  []string{"bind web n1"}, err: forbidden,
	},
	"a Bind plugin that panics is not called again": {
		before: func(env *testEnv) {
			env.binders, env.a.Statuses = []string{"A"}, map[string]probe.StatusFunc{"Bind": probe.Panic}
		},
		calls: []string{"get web"}, err: errAny,
	},
	"an out-of-tree Bind plugin that fails is called once, and the pod is read": {
		before: func(env *testEnv) {
			env.binders, env.a.Statuses = []string{"A"}, map[string]probe.StatusFunc{"Bind": probe.Fail(errBroken)}
		},
		calls: []string{"get web"}, err: errBroken,
	},
	"an out-of-tree Bind plugin that fails may have bound the pod": {
		before: func(env *testEnv) {
			env.binders, env.a.Statuses = []string{"A"}, map[string]probe.StatusFunc{"Bind": func() *fwk.Status {
				env.cluster.UpdatePod(env.pod, func(p *v1.Pod) { p.Spec.NodeName = "n1" })
				return fwk.AsStatus(errBroken)
			}}
		},
		calls: []string{"get web"}, after: "n1",
	},
	"DefaultBinder binds again behind an out-of-tree Bind plugin that skips": {
		before: func(env *testEnv) {
			env.binders, env.a.Statuses = []string{"A", "DefaultBinder"}, map[string]probe.StatusFunc{"Bind": probe.Skip}
		},
		faults: []fakecluster.Fault{{Verb: "bind", Err: internal}},
		calls:  []string{"bind web n1", "get web", "bind web n1"}, after: "n1",
	},
	"a Bind plugin that skips leaves the pod to the next": {
		before: func(env *testEnv) {
			env.binders, env.a.Statuses = []string{"A", "DefaultBinder"}, map[string]probe.StatusFunc{"Bind": probe.Skip}
		},
		calls: []string{"bind web n1"}, after: "n1",
	},
	"without a Bind plugin that takes the pod it is not bound": {
		before: func(env *testEnv) {
			env.binders, env.a.Statuses = []string{"A"}, map[string]probe.StatusFunc{"Bind": probe.Skip}
		},
		err: errNoBinder,
	},
}

func TestBindOutcomes(t *testing.T) {
	for name, c := range bindTests {
		t.Run(name, func(t *testing.T) {
			runInVirtualTime(t, func(env *testEnv) {
				env.a.Statuses = map[string]probe.StatusFunc{"PreBindPreFlight": probe.Skip}
				env.b.Statuses = env.a.Statuses
				if c.before != nil {
					c.before(env)
				}
				env.cluster.Inject(c.faults...)
				_, err := env.bindPod()
				wantLines(t, "calls", env.calls(), c.calls...)
				if c.err == errAny && err != nil {
					c.err = err
				}
				if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
					t.Errorf("error %v, want %v", err, c.err)
				}
				var node string
				if pod := env.cluster.Pod(env.pod); pod != nil {
					node = pod.Spec.NodeName
				}
				if node != c.after {
					t.Errorf("the pod is on %q, want %q", node, c.after)
				}
				if env.assumed() != (c.err == nil) {
					t.Errorf("assumed: %v, want a bound pod to stay assumed and any other to be forgotten", env.assumed())
				}
			})
		})
	}
}

func TestTheBindingCarriesTheDecision(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		if _, err := env.bindPod(); err != nil {
			t.Fatal(err)
		}
		if got := env.cluster.Pod(env.pod).Annotations["berth.dev/decision"]; got != "why" {
			t.Errorf("annotation %q", got)
		}
	})
}

func TestAFailedReadLeavesThePodAssumed(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		env.cluster.Inject(
			fakecluster.Fault{Verb: "bind", Err: internal, Committed: true},
			fakecluster.Fault{Verb: "get", Err: internal, Times: 3600, Before: func() {
				if !env.assumed() {
					t.Error("the pod is not assumed while it is unknown whether it is bound")
				}
			}})
		begin := time.Now()
		if _, err := env.bindPod(); err != nil {
			t.Error(err)
		}
		if waited := time.Since(begin); waited != time.Hour {
			t.Errorf("read for %v, want an hour of virtual time", waited)
		}
	})
}

// A Bind plugin rejects the pod after the queue has stopped recording events for it:
// the pod must not wait for an event that it may have missed.
func TestARejectionAtBindIsNoFitError(t *testing.T) {
	for point, arrange := range map[string]func(*testEnv){
		"PreBind": func(env *testEnv) { env.a.Statuses = map[string]probe.StatusFunc{"PreBind": probe.Reject("no")} },
		"Bind": func(env *testEnv) {
			env.binders, env.a.Statuses = []string{"A"}, map[string]probe.StatusFunc{"Bind": probe.Reject("no")}
		},
	} {
		t.Run("at "+point, func(t *testing.T) {
			runInVirtualTime(t, func(env *testEnv) {
				arrange(env)
				_, err := env.bindPod()
				var fitErr *framework.FitError
				if err == nil || errors.As(err, &fitErr) {
					t.Errorf("%T %v, want an error other than a FitError", err, err)
				}
				var rejected *BindRejectedError
				if !errors.As(err, &rejected) {
					t.Errorf("%T %v, want a BindRejectedError", err, err)
				}
				if env.stoppedRecording != 1 || env.assumed() {
					t.Errorf("StopRecordingEvents called %d times, assumed %v", env.stoppedRecording, env.assumed())
				}
			})
		})
	}
}

// A lost Binding may still arrive: before its pod goes to another node, the pod gets
// another resource version, on which that Binding fails.
func TestALostBindingCannotTakeEffectLater(t *testing.T) {
	lost := fakecluster.Fault{Verb: "bind", Err: internal, Times: maxRebinds + 1}
	for name, c := range map[string]struct {
		patch   fakecluster.Fault  // the failure of the invalidating patch
		before  func(env *testEnv) // runs before that patch
		patches int
		err     error
		after   string
	}{
		"the pod's status is patched": {patches: 1, err: internal},
		"a failed patch is repeated": {
			patch: fakecluster.Fault{Err: internal, Times: 3}, patches: 4, err: internal,
		},
		"a lost answer to the patch is detected by a read": {
			patch: fakecluster.Fault{Err: internal, Committed: true}, patches: 1, err: internal,
		},
		"the Binding arrives before the patch, and the pod is bound": {
			before:  func(env *testEnv) { env.cluster.UpdatePod(env.pod, func(p *v1.Pod) { p.Spec.NodeName = "n1" }) },
			patches: 1, after: "n1",
		},
		"another scheduler binds the pod before the patch": {
			before:  func(env *testEnv) { env.cluster.UpdatePod(env.pod, func(p *v1.Pod) { p.Spec.NodeName = "n2" }) },
			patches: 1, err: ErrGone, after: "n2",
		},
		"the pod is deleted before the patch": {
			before: func(env *testEnv) { env.cluster.DeletePod(env.pod) }, patches: 1, err: ErrGone,
		},
	} {
		t.Run(name, func(t *testing.T) {
			runInVirtualTime(t, func(env *testEnv) {
				env.a.Statuses = map[string]probe.StatusFunc{"PreBindPreFlight": probe.Skip}
				env.b.Statuses = env.a.Statuses
				version := env.cluster.Pod(env.pod).ResourceVersion
				c.patch.Verb = "patch"
				if c.before != nil {
					c.patch.Before = func() { c.before(env) }
				}
				env.cluster.Inject(lost, c.patch)
				_, err := env.bindPod()
				if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
					t.Errorf("error %v, want %v", err, c.err)
				}
				patches := strings.Count(strings.Join(env.cluster.TakeCalls(), "\n"), "patch")
				if patches != c.patches {
					t.Errorf("%d patches, want %d", patches, c.patches)
				}
				if env.assumed() != (c.err == nil) {
					t.Errorf("assumed: %v", env.assumed())
				}
				env.sendLateBinding(version, c.after)
			})
		})
	}
}

// Where the API server never takes the patch, the pod must not stay assumed for ever, but
// as long as the Binding may arrive.
func TestALostBindingIsWaitedForWhereTheStatusIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		answer error
		// arrives is when the Binding takes effect; 0 for never.
		arrives time.Duration
		// ends says that the pod is not assumed for ever; an API server that fails may take the
		// patch later.
		ends  bool
		after string
	}{
		"by a webhook": {answer: denied, ends: true},
		"by the role":  {answer: forbidden, ends: true},
		"and the Binding arrives as late as it can":   {answer: denied, ends: true, arrives: RequestTimeout - time.Millisecond, after: "n1"},
		"by an API server in trouble":                 {answer: internal},
		"by an API server that is too busy":           {answer: apierrors.NewTooManyRequests("later", 1)},
		"by an API server in trouble, until it binds": {answer: internal, ends: true, arrives: time.Hour, after: "n1"},
	} {
		t.Run(name, func(t *testing.T) {
			runInVirtualTime(t, func(env *testEnv) {
				env.a.Statuses = map[string]probe.StatusFunc{"PreBindPreFlight": probe.Skip}
				env.b.Statuses = env.a.Statuses
				env.cluster.Inject(fakecluster.Fault{Verb: "bind", Err: internal, Times: maxRebinds + 1}, fakecluster.Fault{Verb: "patch", Err: c.answer, Times: 1e6})
				var cancel context.CancelFunc
				env.ctx, cancel = context.WithCancel(env.ctx)
				if c.arrives > 0 {
					time.AfterFunc(c.arrives, func() { env.cluster.UpdatePod(env.pod, func(p *v1.Pod) { p.Spec.NodeName = "n1" }) })
				}
				ended := false
				go func() {
					_, _ = env.bindPod()
					ended = true
				}()
				time.Sleep(24 * time.Hour)
				synctest.Wait()
				if ended != c.ends || env.assumed() == (c.ends && c.after == "") {
					t.Errorf("ended %v, assumed %v, want the end: %v", ended, env.assumed(), c.ends)
				}
				if pod := env.cluster.Pod(env.pod); pod.Spec.NodeName != c.after {
					t.Errorf("the pod is on %q, want %q", pod.Spec.NodeName, c.after)
				}
				patches := strings.Count(strings.Join(env.cluster.TakeCalls(), "\n"), "patch")
				if day := int(24 * time.Hour / maxRetryDelay); patches > day+5 {
					t.Errorf("%d patches in a day, want at most one in %v", patches, maxRetryDelay)
				}
				cancel()
			})
		})
	}
}

// sendLateBinding sends the lost Binding, and checks that it fails and which node the
// pod has then.
func (env *testEnv) sendLateBinding(version, want string) {
	env.t.Helper()
	err := env.cluster.CoreV1().Pods(env.pod.Namespace).Bind(env.ctx, &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: env.pod.Name, UID: env.pod.UID, ResourceVersion: version},
		Target:     v1.ObjectReference{Kind: "Node", Name: "n1"},
	}, metav1.CreateOptions{})
	if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		env.t.Errorf("the late Binding was answered with %v, want a conflict", err)
	}
	var node string
	if pod := env.cluster.Pod(env.pod); pod != nil {
		node = pod.Spec.NodeName
	}
	if node != want {
		env.t.Errorf("the pod is on %q, want %q", node, want)
	}
}
