package binding

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/fakecluster"
	"github.com/berthdev/berth/test/fixture"
	"github.com/berthdev/berth/test/probe"
)

// condition is the stored pod's PodScheduled, as "status reason message".
func (w *testEnv) condition() string {
	pod := w.cluster.Pod(w.pod)
	if pod == nil {
		return "gone"
	}
	if c := conditionOf(pod, v1.PodScheduled); c != nil {
		return string(c.Status) + " " + c.Reason + " " + c.Message
	}
	return "none"
}

// news are histories of what is said about the pod, the patches that are sent,
// and the condition that comes of it.
var statusTests = map[string]struct {
	history   func(w *testEnv)
	calls     []string
	condition string
	nominated string
}{
	"a refusal is written": {
		history:   func(w *testEnv) { w.SetNotScheduled(w.pod, "Unschedulable", "no room", nil) },
		calls:     []string{"patch web"},
		condition: "False Unschedulable no room",
	},
	"the same again is not, even before the informer has seen the first": {
		history: func(w *testEnv) {
			w.SetNotScheduled(w.pod, "Unschedulable", "no room", nil)
			synctest.Wait()
			w.SetNotScheduled(w.pod, "Unschedulable", "no room", nil)
		},
		calls:     []string{"patch web"},
		condition: "False Unschedulable no room",
	},
	"another message is": {
		history: func(w *testEnv) {
			w.SetNotScheduled(w.pod, "Unschedulable", "no room", nil)
			synctest.Wait()
			w.SetNotScheduled(w.pod, "Unschedulable", "no room at all", nil)
		},
		calls:     []string{"patch web", "patch web"},
		condition: "False Unschedulable no room at all",
	},
	"of much news during a patch only the last is sent": {
		history: func(w *testEnv) {
			w.cluster.Inject(fakecluster.Fault{Verb: "patch", Before: func() {
				for _, message := range []string{"two", "three", "four"} {
					w.SetNotScheduled(w.pod, "Unschedulable", message, nil)
				}
			}})
			w.SetNotScheduled(w.pod, "Unschedulable", "one", nil)
		},
		calls:     []string{"patch web", "patch web"},
		condition: "False Unschedulable four",
	},
	"news that comes while a new leader marks the pod follows": {
		history: func(w *testEnv) {
			w.cluster.Inject(fakecluster.Fault{Verb: "patch", Before: func() {
				w.SetNotScheduled(w.pod, "Unschedulable", "no room", nil)
				synctest.Wait()
			}})
			w.FencePods(w.ctx, []*v1.Pod{w.pod}, 3)
		},
		calls:     []string{"patch web", "patch web"},
		condition: "False Unschedulable no room",
	},
	"news of another kind is sent together": {
		history: func(w *testEnv) {
			w.cluster.Inject(fakecluster.Fault{Verb: "patch", Before: func() {
				w.SetNotScheduled(w.pod, "Unschedulable", "two", nil)
				w.status.nominate(w.pod, "n7")
			}})
			w.SetNotScheduled(w.pod, "Unschedulable", "one", nil)
		},
		calls:     []string{"patch web", "patch web"},
		condition: "False Unschedulable two", nominated: "n7",
	},
	"a nomination is taken back although the informer never saw it": {
		history: func(w *testEnv) {
			w.status.nominate(w.pod, "n7")
			synctest.Wait()
			none := ""
			w.SetNotScheduled(w.pod, "SchedulerError", "broken", &none)
		},
		calls:     []string{"patch web", "patch web"},
		condition: "False SchedulerError broken",
	},
	"a patch that fails is sent again": {
		history: func(w *testEnv) {
			w.cluster.Inject(fakecluster.Fault{Verb: "patch", Err: internal, Times: 3})
			w.SetNotScheduled(w.pod, "ProfilePaused", "paused", nil)
		},
		calls:     []string{"patch web", "patch web", "patch web", "patch web"},
		condition: "False ProfilePaused paused",
	},
	"a patch that is forbidden is not": {
		history: func(w *testEnv) {
			w.cluster.Inject(fakecluster.Fault{Verb: "patch", Err: forbidden, Times: 3})
			w.SetNotScheduled(w.pod, "ProfilePaused", "paused", nil)
		},
		calls:     []string{"patch web"},
		condition: "none",
	},
	"a pod that somebody changed is read and told": {
		history: func(w *testEnv) {
			w.cluster.UpdatePod(w.pod, func(p *v1.Pod) { p.Labels = map[string]string{"a": "b"} })
			w.SetNotScheduled(w.pod, "Unschedulable", "no room", nil)
		},
		calls:     []string{"patch web", "get web", "patch web"},
		condition: "False Unschedulable no room",
	},
	"a pod that somebody bound is never told that it is not scheduled": {
		history: func(w *testEnv) {
			w.cluster.UpdatePod(w.pod, func(p *v1.Pod) {
				p.Spec.NodeName = "n9"
				p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue}}
			})
			w.SetNotScheduled(w.pod, "Unschedulable", "no room", nil)
		},
		calls:     []string{"patch web", "get web"},
		condition: "True  ",
	},
	"a pod that is gone is let go": {
		history: func(w *testEnv) {
			w.cluster.DeletePod(w.pod)
			w.SetNotScheduled(w.pod, "Unschedulable", "no room", nil)
		},
		calls:     []string{"patch web"},
		condition: "gone",
	},
	"another pod of the same name is left alone": {
		history: func(w *testEnv) {
			w.cluster.DeletePod(w.pod)
			w.cluster.Apply(fixture.Pod("web").UID("another").Obj())
			w.SetNotScheduled(w.pod, "Unschedulable", "no room", nil)
		},
		calls:     []string{"patch web", "get web"},
		condition: "none",
	},
	"a bind drops news that was not sent": {
		history: func(w *testEnv) {
			w.cluster.Inject(fakecluster.Fault{Verb: "patch", Before: func() {
				w.SetNotScheduled(w.pod, "Unschedulable", "late news", nil)
				time.Sleep(time.Minute)
			}})
			w.SetNotScheduled(w.pod, "Unschedulable", "no room", nil)
			synctest.Wait()
			if _, err := w.bindPod(); err != nil {
				w.t.Error(err)
			}
		},
		calls:     []string{"patch web", "bind web n1"},
		condition: "True  ",
	},
	"a bind waits for the patch that is under way": {
		history: func(w *testEnv) {
			w.cluster.Inject(fakecluster.Fault{Verb: "patch", Before: func() { time.Sleep(time.Minute) }})
			w.SetNotScheduled(w.pod, "Unschedulable", "no room", nil)
			synctest.Wait()
			begin := time.Now()
			if _, err := w.bindPod(); err != nil {
				w.t.Error(err)
			}
			if waited := time.Since(begin); waited != time.Minute {
				w.t.Errorf("the bind waited %v, want a minute", waited)
			}
		},
		calls:     []string{"patch web", "bind web n1"},
		condition: "True  ",
	},
	"a patch that fails during a bind is not sent again": {
		history: func(w *testEnv) {
			w.cluster.Inject(fakecluster.Fault{Verb: "patch", Err: internal, Before: func() { time.Sleep(time.Minute) }})
			w.SetNotScheduled(w.pod, "Unschedulable", "no room", nil)
			synctest.Wait()
			if _, err := w.bindPod(); err != nil {
				w.t.Error(err)
			}
			time.Sleep(time.Hour)
		},
		calls:     []string{"patch web", "bind web n1"},
		condition: "True  ",
	},
}

func TestStatus(t *testing.T) {
	for sentence, c := range statusTests {
		t.Run(sentence, func(t *testing.T) {
			runInVirtualTime(t, func(w *testEnv) {
				w.a.Statuses = map[string]probe.StatusFunc{"PreBindPreFlight": probe.Skip}
				w.b.Statuses = map[string]probe.StatusFunc{"PreBindPreFlight": probe.Skip}
				c.history(w)
				time.Sleep(time.Hour) // virtual: whatever is tried again is over
				wantLines(t, "calls", w.cluster.TakeCalls(), c.calls...)
				if got := w.condition(); got != c.condition {
					t.Errorf("condition %q, want %q", got, c.condition)
				}
				if pod := w.cluster.Pod(w.pod); pod != nil && pod.Status.NominatedNodeName != c.nominated {
					t.Errorf("nominated %q, want %q", pod.Status.NominatedNodeName, c.nominated)
				}
				w.Forget(w.pod.UID)
				s := w.status
				if n := len(s.known) + len(s.pending) + len(s.inFlight) + s.workers; n != 0 {
					t.Errorf("%d things are remembered of a pod that was forgotten", n)
				}
			})
		})
	}
}

func TestForgetDuringAPatchLeavesNothing(t *testing.T) {
	runInVirtualTime(t, func(w *testEnv) {
		w.cluster.Inject(fakecluster.Fault{Verb: "patch", Before: func() { w.Forget(w.pod.UID) }})
		w.SetNotScheduled(w.pod, "Unschedulable", "no room", nil)
		synctest.Wait()
		if n := len(w.status.known); n != 0 {
			t.Error("the answer to a patch is remembered of a pod that was forgotten")
		}
	})
}

func TestAConditionKeepsTheTimeOfItsTransition(t *testing.T) {
	runInVirtualTime(t, func(w *testEnv) {
		before := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
		w.cluster.UpdatePod(w.pod, func(p *v1.Pod) {
			p.Generation = 3
			p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, LastTransitionTime: before}}
		})
		w.pod = w.cluster.Pod(w.pod)
		w.SetNotScheduled(w.pod, "Unschedulable", "no room", nil)
		synctest.Wait()
		c := conditionOf(w.cluster.Pod(w.pod), v1.PodScheduled)
		if !c.LastTransitionTime.Equal(&before) || c.ObservedGeneration != 3 {
			t.Errorf("since %v for generation %d, want %v and 3", c.LastTransitionTime, c.ObservedGeneration, before)
		}
	})
}

func TestStatusWorkersAreLimited(t *testing.T) {
	runInVirtualTime(t, func(w *testEnv) {
		most := 0
		for i := range 50 {
			pod := fixture.Pod("web-" + string(rune('A'+i))).Obj()
			w.cluster.Apply(pod)
			w.cluster.Inject(fakecluster.Fault{Verb: "patch", Before: func() {
				w.status.mu.Lock()
				most = max(most, len(w.status.inFlight))
				w.status.mu.Unlock()
				time.Sleep(time.Second)
			}})
			w.SetNotScheduled(w.cluster.Pod(pod), "Unschedulable", "no room", nil)
		}
		time.Sleep(time.Hour)
		if calls := w.cluster.TakeCalls(); len(calls) != 50 || most != maxStatusWorkers {
			t.Errorf("%d patches, at most %d at a time, want 50 and %d", len(calls), most, maxStatusWorkers)
		}
	})
}
