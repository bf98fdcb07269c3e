package binding

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/scheduler/leadership"
	"github.com/berthdev/berth/test/support/fakecluster"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/probe"
)

// condition returns PodScheduled of the pod in the API server, as "status reason
// message".
func (env *testEnv) condition() string {
	pod := env.cluster.Pod(env.pod)
	if pod == nil {
		return "gone"
	}
	if c := conditionOf(pod, v1.PodScheduled); c != nil {
		return string(c.Status) + " " + c.Reason + " " + c.Message
	}
	return "none"
}

// statusTests are histories of status updates, the requests that they cause, and the
// condition at the end.
var statusTests = map[string]struct {
	history   func(env *testEnv)
	calls     []string
	condition string
	nominated string
}{
	"a condition is written": {
		history:   func(env *testEnv) { env.SetNotScheduled(env.pod, "Unschedulable", "no node fits", nil) },
		calls:     []string{"patch web"},
		condition: "False Unschedulable no node fits",
	},
	"the same condition is not written again, even before the informer delivers the first": {
		history: func(env *testEnv) {
			env.SetNotScheduled(env.pod, "Unschedulable", "no node fits", nil)
			synctest.Wait()
			env.SetNotScheduled(env.pod, "Unschedulable", "no node fits", nil)
		},
		calls:     []string{"patch web"},
		condition: "False Unschedulable no node fits",
	},
	"another message is written": {
		history: func(env *testEnv) {
			env.SetNotScheduled(env.pod, "Unschedulable", "no node fits", nil)
			synctest.Wait()
			env.SetNotScheduled(env.pod, "Unschedulable", "no node fits at all", nil)
		},
		calls:     []string{"patch web", "patch web"},
		condition: "False Unschedulable no node fits at all",
	},
	"of several updates during a patch only the last is sent": {
		history: func(env *testEnv) {
			env.cluster.Inject(fakecluster.Fault{Verb: "patch", Before: func() {
				for _, message := range []string{"two", "three", "four"} {
					env.SetNotScheduled(env.pod, "Unschedulable", message, nil)
				}
			}})
			env.SetNotScheduled(env.pod, "Unschedulable", "one", nil)
		},
		calls:     []string{"patch web", "patch web"},
		condition: "False Unschedulable four",
	},
	"an update during the fencing of the pod follows it": {
		history: func(env *testEnv) {
			env.cluster.Inject(fakecluster.Fault{Verb: "patch", Before: func() {
				env.SetNotScheduled(env.pod, "Unschedulable", "no node fits", nil)
				synctest.Wait()
			}})
			env.FencePods(env.ctx, []*v1.Pod{env.pod}, 3)
		},
		calls:     []string{"patch web", "patch web"},
		condition: "False Unschedulable no node fits",
	},
	"updates of condition and nomination are sent together": {
		history: func(env *testEnv) {
			env.cluster.Inject(fakecluster.Fault{Verb: "patch", Before: func() {
				env.SetNotScheduled(env.pod, "Unschedulable", "two", nil)
				env.status.nominate(env.pod, "n7")
			}})
			env.SetNotScheduled(env.pod, "Unschedulable", "one", nil)
		},
		calls:     []string{"patch web", "patch web"},
		condition: "False Unschedulable two", nominated: "n7",
	},
	"a nomination is removed although the informer never delivered it": {
		history: func(env *testEnv) {
			env.status.nominate(env.pod, "n7")
			synctest.Wait()
			none := ""
			env.SetNotScheduled(env.pod, "SchedulerError", "broken", &none)
		},
		calls:     []string{"patch web", "patch web"},
		condition: "False SchedulerError broken",
	},
	"a failed patch is sent again": {
		history: func(env *testEnv) {
			env.cluster.Inject(fakecluster.Fault{Verb: "patch", Err: internal, Times: 3})
			env.SetNotScheduled(env.pod, "ProfilePaused", "paused", nil)
		},
		calls:     []string{"patch web", "get web", "patch web", "get web", "patch web", "get web", "patch web"},
		condition: "False ProfilePaused paused",
	},
	"after a patch whose answer was lost, the pod is read before the next patch": {
		history: func(env *testEnv) {
			env.SetNotScheduled(env.pod, "ProfilePaused", "paused", nil)
			synctest.Wait()
			env.cluster.Inject(fakecluster.Fault{Verb: "patch", Err: internal, Committed: true, After: func() {
				env.SetNotScheduled(env.pod, "ProfilePaused", "paused", nil)
			}})
			env.SetNotScheduled(env.pod, "Unschedulable", "no node fits", nil)
		},
		calls:     []string{"patch web", "patch web", "get web", "patch web"},
		condition: "False ProfilePaused paused",
	},
	"an invalid patch is not sent again": {
		history: func(env *testEnv) {
			env.cluster.Inject(fakecluster.Fault{Verb: "patch", Err: apierrors.NewBadRequest("no such field"), Times: 3})
			env.SetNotScheduled(env.pod, "ProfilePaused", "paused", nil)
		},
		calls:     []string{"patch web"},
		condition: "none",
	},
	"a patch is sent again that was not permitted: permissions and tokens come back": {
		history: func(env *testEnv) {
			env.cluster.Inject(fakecluster.Fault{Verb: "patch", Err: forbidden})
			env.cluster.Inject(fakecluster.Fault{Verb: "patch", Err: apierrors.NewUnauthorized("the token has expired")})
			env.SetNotScheduled(env.pod, "ProfilePaused", "paused", nil)
		},
		calls:     []string{"patch web", "get web", "patch web", "get web", "patch web"},
		condition: "False ProfilePaused paused",
	},
	"a patch that fails for minutes is sent again, less often": {
		history: func(env *testEnv) {
			env.cluster.Inject(fakecluster.Fault{Verb: "patch", Err: internal, Times: 7})
			env.SetNotScheduled(env.pod, "ProfilePaused", "paused", nil)
			time.Sleep(75 * time.Second)
			// After 0, 1, 3, 7, 15, 31 and 61 seconds.
			wantLines(env.t, "calls", env.cluster.TakeCalls(), append([]string{"patch web"}, slices.Repeat([]string{"get web", "patch web"}, 6)...)...)
		},
		calls:     []string{"get web", "patch web"},
		condition: "False ProfilePaused paused",
	},
	"a newer update takes the place of one that is to be sent later, and does not wait": {
		history: func(env *testEnv) {
			env.failOften(internal, 0, 32*time.Second)
			env.SetNotScheduled(env.pod, "Unschedulable", "no node fits", nil)
			synctest.Wait()
			wantLines(env.t, "calls at once", env.cluster.TakeCalls(), "get web", "patch web")
		},
		condition: "False Unschedulable no node fits",
	},
	"a newer update that fails at once is sent later, as the one before": {
		history: func(env *testEnv) {
			env.failOften(forbidden, 1, 32*time.Second)
			env.SetNotScheduled(env.pod, "Unschedulable", "no node fits", nil)
			time.Sleep(maxRetryDelay / 2)
			wantLines(env.t, "calls", env.cluster.TakeCalls(), "get web", "patch web")
		},
		calls:     []string{"get web", "patch web"},
		condition: "False Unschedulable no node fits",
	},
	"a newer update waits where the API server asked for that": {
		history: func(env *testEnv) {
			env.failOften(apierrors.NewTooManyRequests("later", 20), 0, 101*time.Second)
			env.SetNotScheduled(env.pod, "Unschedulable", "no node fits", nil)
			time.Sleep(maxRetryDelay / 2)
			wantLines(env.t, "calls", env.cluster.TakeCalls())
		},
		calls:     []string{"get web", "patch web"},
		condition: "False Unschedulable no node fits",
	},
	"a newer update does not wait longer than the API server asked for": {
		history: func(env *testEnv) {
			env.failOften(apierrors.NewTooManyRequests("later", 5), 0, 40*time.Second)
			time.Sleep(5 * time.Second)
			env.SetNotScheduled(env.pod, "Unschedulable", "no node fits", nil)
			synctest.Wait()
			wantLines(env.t, "calls at once", env.cluster.TakeCalls(), "get web", "patch web")
		},
		condition: "False Unschedulable no node fits",
	},
	"a patch is sent again that was not sent since the clock jumped": {
		history: func(env *testEnv) {
			env.cluster.Inject(fakecluster.Fault{Verb: "patch", Err: fmt.Errorf("patch: %w", leadership.ErrNotLeading)})
			env.SetNotScheduled(env.pod, "ProfilePaused", "paused", nil)
		},
		calls:     []string{"patch web", "get web", "patch web"},
		condition: "False ProfilePaused paused",
	},
	"an update that is to be sent later is dropped when the pod is bound": {
		history: func(env *testEnv) {
			env.failOften(internal, 0, 32*time.Second)
			if _, err := env.bindPod(); err != nil {
				env.t.Error(err)
			}
		},
		calls:     []string{"bind web n1"},
		condition: "True  ",
	},
	"a pod that others changed is read and patched": {
		history: func(env *testEnv) {
			env.cluster.UpdatePod(env.pod, func(p *v1.Pod) { p.Labels = map[string]string{"a": "b"} })
			env.SetNotScheduled(env.pod, "Unschedulable", "no node fits", nil)
		},
		calls:     []string{"patch web", "get web", "patch web"},
		condition: "False Unschedulable no node fits",
	},
	"a pod that another scheduler bound does not get PodScheduled=False": {
		history: func(env *testEnv) {
			env.cluster.UpdatePod(env.pod, func(p *v1.Pod) {
				p.Spec.NodeName = "n9"
				p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue}}
			})
			env.SetNotScheduled(env.pod, "Unschedulable", "no node fits", nil)
		},
		calls:     []string{"patch web", "get web"},
		condition: "True  ",
	},
	"a deleted pod is not patched again": {
		history: func(env *testEnv) {
			env.cluster.DeletePod(env.pod)
			env.SetNotScheduled(env.pod, "Unschedulable", "no node fits", nil)
		},
		calls:     []string{"patch web"},
		condition: "gone",
	},
	"another pod of the same name is left alone": {
		history: func(env *testEnv) {
			env.cluster.DeletePod(env.pod)
			env.cluster.Apply(fixture.Pod("web").UID("another").Obj())
			env.SetNotScheduled(env.pod, "Unschedulable", "no node fits", nil)
		},
		calls:     []string{"patch web", "get web"},
		condition: "none",
	},
	"a bind drops the pending update": {
		history: func(env *testEnv) {
			env.cluster.Inject(fakecluster.Fault{Verb: "patch", Before: func() {
				env.SetNotScheduled(env.pod, "Unschedulable", "late update", nil)
				time.Sleep(time.Minute)
			}})
			env.SetNotScheduled(env.pod, "Unschedulable", "no node fits", nil)
			synctest.Wait()
			if _, err := env.bindPod(); err != nil {
				env.t.Error(err)
			}
		},
		calls:     []string{"patch web", "bind web n1"},
		condition: "True  ",
	},
	"a bind waits for the patch in flight": {
		history: func(env *testEnv) {
			env.cluster.Inject(fakecluster.Fault{Verb: "patch", Before: func() { time.Sleep(time.Minute) }})
			env.SetNotScheduled(env.pod, "Unschedulable", "no node fits", nil)
			synctest.Wait()
			begin := time.Now()
			if _, err := env.bindPod(); err != nil {
				env.t.Error(err)
			}
			if waited := time.Since(begin); waited != time.Minute {
				env.t.Errorf("the bind waited %v, want a minute", waited)
			}
		},
		calls:     []string{"patch web", "bind web n1"},
		condition: "True  ",
	},
	"a patch that fails during a bind is not sent again": {
		history: func(env *testEnv) {
			env.cluster.Inject(fakecluster.Fault{Verb: "patch", Err: internal, Before: func() { time.Sleep(time.Minute) }})
			env.SetNotScheduled(env.pod, "Unschedulable", "no node fits", nil)
			synctest.Wait()
			if _, err := env.bindPod(); err != nil {
				env.t.Error(err)
			}
			time.Sleep(time.Hour)
		},
		calls:     []string{"patch web", "bind web n1"},
		condition: "True  ",
	},
}

// failOften has an update fail six times, which takes the given time, so that it waits for
// maxRetryDelay then, and further patches.
func (env *testEnv) failOften(err error, further int, takes time.Duration) {
	env.cluster.Inject(fakecluster.Fault{Verb: "patch", Err: err, Times: 6 + further})
	env.SetNotScheduled(env.pod, "ProfilePaused", "paused", nil)
	time.Sleep(takes)
	env.cluster.TakeCalls()
}

func TestStatus(t *testing.T) {
	for name, c := range statusTests {
		t.Run(name, func(t *testing.T) {
			runInVirtualTime(t, func(env *testEnv) {
				env.a.Statuses = map[string]probe.StatusFunc{"PreBindPreFlight": probe.Skip}
				env.b.Statuses = map[string]probe.StatusFunc{"PreBindPreFlight": probe.Skip}
				c.history(env)
				time.Sleep(time.Hour) // virtual: all retries have ended
				wantLines(t, "calls", env.cluster.TakeCalls(), c.calls...)
				if got := env.condition(); got != c.condition {
					t.Errorf("condition %q, want %q", got, c.condition)
				}
				if pod := env.cluster.Pod(env.pod); pod != nil && pod.Status.NominatedNodeName != c.nominated {
					t.Errorf("nominated %q, want %q", pod.Status.NominatedNodeName, c.nominated)
				}
				env.Forget(env.pod.UID)
				s := env.status
				if n := len(s.known) + len(s.pending) + len(s.inFlight) + len(s.unanswered) + s.workers; n != 0 {
					t.Errorf("%d items are held of a forgotten pod", n)
				}
			})
		})
	}
}

func TestForgetDuringAPatchLeavesNothing(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		env.cluster.Inject(fakecluster.Fault{Verb: "patch", Before: func() { env.Forget(env.pod.UID) }})
		env.SetNotScheduled(env.pod, "Unschedulable", "no node fits", nil)
		synctest.Wait()
		if n := len(env.status.known); n != 0 {
			t.Error("the answer to a patch is held of a forgotten pod")
		}
	})
}

func TestAConditionKeepsTheTimeOfItsTransition(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		before := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
		env.cluster.UpdatePod(env.pod, func(p *v1.Pod) {
			p.Generation = 3
			p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, LastTransitionTime: before}}
		})
		env.pod = env.cluster.Pod(env.pod)
		env.SetNotScheduled(env.pod, "Unschedulable", "no node fits", nil)
		synctest.Wait()
		c := conditionOf(env.cluster.Pod(env.pod), v1.PodScheduled)
		if !c.LastTransitionTime.Equal(&before) || c.ObservedGeneration != 3 {
			t.Errorf("since %v for generation %d, want %v and 3", c.LastTransitionTime, c.ObservedGeneration, before)
		}
	})
}

func TestStatusWorkersAreLimited(t *testing.T) {
	runInVirtualTime(t, func(env *testEnv) {
		most := 0
		for i := range 50 {
			pod := fixture.Pod("web-" + string(rune('A'+i))).Obj()
			env.cluster.Apply(pod)
			env.cluster.Inject(fakecluster.Fault{Verb: "patch", Before: func() {
				env.status.mu.Lock()
				most = max(most, len(env.status.inFlight))
				env.status.mu.Unlock()
				time.Sleep(time.Second)
			}})
			env.SetNotScheduled(env.cluster.Pod(pod), "Unschedulable", "no node fits", nil)
		}
		time.Sleep(time.Hour)
		if calls := env.cluster.TakeCalls(); len(calls) != 50 || most != maxStatusWorkers {
			t.Errorf("%d patches, at most %d at a time, want 50 and %d", len(calls), most, maxStatusWorkers)
		}
	})
}
