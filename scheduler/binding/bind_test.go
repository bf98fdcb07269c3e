package binding

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/fakecluster"
	"github.com/berthdev/berth/test/fixture"
	"github.com/berthdev/berth/test/probe"
)

var (
	forbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web", errors.New("no"))
	internal  = apierrors.NewInternalError(errors.New("etcd is slow"))
)

// outcome is what became of a Binding.
type bindTest struct {
	// before is what happens between the decision and the Binding.
	before func(w *testEnv)
	// faults are what goes wrong at the API server.
	faults []fakecluster.Fault
	// calls are the binds and reads that are made.
	calls []string
	// err is what Finish returns: nil, one of the room's errors, or anything.
	err error
	// after is where the pod is then, "" for nowhere.
	after string
}

var errAny = errors.New("any error")

var bindTests = map[string]bindTest{
	"a pod is bound by one write": {
		calls: []string{"bind web n1"}, after: "n1",
	},
	"a change that scheduling does not read is bound over at once": {
		before: func(w *testEnv) { w.cluster.UpdatePod(w.pod, func(p *v1.Pod) { p.Status.Message = "hello" }) },
		calls:  []string{"bind web n1", "get web", "bind web n1"}, after: "n1",
	},
	"a change that scheduling reads ends the attempt": {
		before: func(w *testEnv) {
			w.cluster.UpdatePod(w.pod, func(p *v1.Pod) { p.Labels = map[string]string{"a": "b"} })
		},
		calls: []string{"bind web n1", "get web"}, err: errPodChanged,
	},
	"a change that our own patch met first ends it, too": {
		before: func(w *testEnv) {
			w.a.Statuses = nil // work to do, so that autoscalers are told
			w.a.OnPreBind = func(context.Context) { synctest.Wait() }
			w.cluster.UpdatePod(w.pod, func(p *v1.Pod) { p.Labels = map[string]string{"a": "b"} })
		},
		calls: []string{"get web", "bind web n1", "get web"}, err: errPodChanged,
	},
	"one that scheduling does not read does not": {
		before: func(w *testEnv) {
			w.a.Statuses = nil
			w.a.OnPreBind = func(context.Context) { synctest.Wait() }
			w.cluster.UpdatePod(w.pod, func(p *v1.Pod) { p.Status.Message = "hello" })
		},
		calls: []string{"get web", "bind web n1"}, after: "n1",
	},
	"a change that a patch of an earlier attempt met ends it while the informer lags": {
		before: func(w *testEnv) {
			w.cluster.UpdatePod(w.pod, func(p *v1.Pod) { p.Labels = map[string]string{"a": "b"} })
			w.SetNotScheduled(w.pod, "Unschedulable", "no room", nil)
			synctest.Wait()
		},
		calls: []string{"get web", "bind web n1", "get web"}, err: errPodChanged,
	},
	"an annotation, which a plugin may have written at PreBind, does not end it": {
		before: func(w *testEnv) {
			w.cluster.UpdatePod(w.pod, func(p *v1.Pod) { p.Annotations = map[string]string{"chosen-by": "a plugin"} })
		},
		calls: []string{"bind web n1", "get web", "bind web n1"}, after: "n1",
	},
	"a pod that somebody else bound is not touched": {
		before: func(w *testEnv) { w.cluster.UpdatePod(w.pod, func(p *v1.Pod) { p.Spec.NodeName = "n2" }) },
		calls:  []string{"bind web n1", "get web"}, err: ErrGone, after: "n2",
	},
	"a pod that somebody else bound to the same node is bound": {
		before: func(w *testEnv) { w.cluster.UpdatePod(w.pod, func(p *v1.Pod) { p.Spec.NodeName = "n1" }) },
		calls:  []string{"bind web n1", "get web"}, after: "n1",
	},
	"a pod that was deleted is nobody's business": {
		before: func(w *testEnv) { w.cluster.DeletePod(w.pod) },
		calls:  []string{"bind web n1", "get web"}, err: ErrGone,
	},
	"a pod that is being deleted is nobody's business": {
		before: func(w *testEnv) {
			w.cluster.UpdatePod(w.pod, func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} })
		},
		calls: []string{"bind web n1", "get web"}, err: ErrGone,
	},
	"another pod of the same name is left alone": {
		before: func(w *testEnv) {
			w.cluster.DeletePod(w.pod)
			w.cluster.Apply(fixture.Pod("web").UID("another").Obj())
		},
		calls: []string{"bind web n1", "get web"}, err: ErrGone,
	},
	"an error after the write counted is found out": {
		faults: []fakecluster.Fault{{Verb: "bind", Err: internal, Committed: true}},
		calls:  []string{"bind web n1", "get web"}, after: "n1",
	},
	"an error before the write counted is bound again": {
		faults: []fakecluster.Fault{{Verb: "bind", Err: internal}},
		calls:  []string{"bind web n1", "get web", "bind web n1"}, after: "n1",
	},
	"an answer that never came is found out": {
		faults: []fakecluster.Fault{{Verb: "bind", Err: context.DeadlineExceeded, Committed: true}},
		calls:  []string{"bind web n1", "get web"}, after: "n1",
	},
	"a read that fails is made again until it says what happened": {
		faults: []fakecluster.Fault{{Verb: "bind", Err: internal, Committed: true}, {Verb: "get", Err: internal, Times: 3}},
		calls:  []string{"bind web n1", "get web", "get web", "get web", "get web"}, after: "n1",
	},
	"a Binding that is never taken is given up": {
		faults: []fakecluster.Fault{{Verb: "bind", Err: internal, Times: 100}},
		calls: []string{"bind web n1", "get web", "bind web n1", "get web", "bind web n1", "get web",
			"bind web n1", "get web", "bind web n1", "get web", "bind web n1", "get web"},
		err: internal,
	},
	"what is forbidden is not asked twice": {
		faults: []fakecluster.Fault{{Verb: "bind", Err: forbidden}},
		calls:  []string{"bind web n1"}, err: forbidden,
	},
	"a binder that panics is not asked twice": {
		before: func(w *testEnv) {
			w.binders, w.a.Statuses = []string{"A"}, map[string]probe.StatusFunc{"Bind": probe.Panic}
		},
		calls: []string{"get web"}, err: errAny,
	},
	"a binder that skips leaves the pod to the next": {
		before: func(w *testEnv) {
			w.binders, w.a.Statuses = []string{"A", "DefaultBinder"}, map[string]probe.StatusFunc{"Bind": probe.Skip}
		},
		calls: []string{"bind web n1"}, after: "n1",
	},
	"binders that all skip bind nothing": {
		before: func(w *testEnv) {
			w.binders, w.a.Statuses = []string{"A"}, map[string]probe.StatusFunc{"Bind": probe.Skip}
		},
		err: errNoBinder,
	},
}

func TestBindOutcomes(t *testing.T) {
	for sentence, c := range bindTests {
		t.Run(sentence, func(t *testing.T) {
			runInVirtualTime(t, func(w *testEnv) {
				w.a.Statuses = map[string]probe.StatusFunc{"PreBindPreFlight": probe.Skip}
				w.b.Statuses = w.a.Statuses
				if c.before != nil {
					c.before(w)
				}
				w.cluster.Inject(c.faults...)
				_, err := w.bindPod()
				wantLines(t, "calls", w.calls(), c.calls...)
				if c.err == errAny && err != nil {
					c.err = err
				}
				if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
					t.Errorf("error %v, want %v", err, c.err)
				}
				var node string
				if pod := w.cluster.Pod(w.pod); pod != nil {
					node = pod.Spec.NodeName
				}
				if node != c.after {
					t.Errorf("the pod is on %q, want %q", node, c.after)
				}
				if w.assumed() != (c.err == nil) {
					t.Errorf("assumed: %v; a pod that is not bound takes no room, and one that is does until it is confirmed", w.assumed())
				}
			})
		})
	}
}

func TestTheBindingCarriesTheDecision(t *testing.T) {
	runInVirtualTime(t, func(w *testEnv) {
		if _, err := w.bindPod(); err != nil {
			t.Fatal(err)
		}
		if got := w.cluster.Pod(w.pod).Annotations["berth.dev/decision"]; got != "why" {
			t.Errorf("annotation %q", got)
		}
	})
}

func TestAFailedReadLeavesThePodAssumed(t *testing.T) {
	runInVirtualTime(t, func(w *testEnv) {
		w.cluster.Inject(
			fakecluster.Fault{Verb: "bind", Err: internal, Committed: true},
			fakecluster.Fault{Verb: "get", Err: internal, Times: 3600, Before: func() {
				if !w.assumed() {
					t.Error("the pod does not count on its node while nobody knows whether it is bound")
				}
			}})
		begin := time.Now()
		if _, err := w.bindPod(); err != nil {
			t.Error(err)
		}
		if waited := time.Since(begin); waited != time.Hour {
			t.Errorf("read for %v, want an hour of virtual time", waited)
		}
	})
}

// A refusal by a Bind plugin comes after the queue stopped keeping events for
// the pod: it must not wait for an event that it may have missed.
func TestARejectionAtBindIsNoFitError(t *testing.T) {
	for point, arrange := range map[string]func(*testEnv){
		"PreBind": func(w *testEnv) { w.a.Statuses = map[string]probe.StatusFunc{"PreBind": probe.Reject("no")} },
		"Bind": func(w *testEnv) {
			w.binders, w.a.Statuses = []string{"A"}, map[string]probe.StatusFunc{"Bind": probe.Reject("no")}
		},
	} {
		t.Run("at "+point, func(t *testing.T) {
			runInVirtualTime(t, func(w *testEnv) {
				arrange(w)
				_, err := w.bindPod()
				var unfit *framework.FitError
				if err == nil || errors.As(err, &unfit) {
					t.Errorf("%T %v, want an error that names no rejector", err, err)
				}
				var declined *BindRejectedError
				if !errors.As(err, &declined) {
					t.Errorf("%T %v, want one that says a plugin declined", err, err)
				}
				if w.stoppedRecording != 1 || w.assumed() {
					t.Errorf("deaf %d times, assumed %v", w.stoppedRecording, w.assumed())
				}
			})
		})
	}
}
