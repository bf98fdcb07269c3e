package scheduler

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/fakecluster"
	"github.com/berthdev/berth/test/fixture"
	"github.com/berthdev/berth/test/probe"
)

func TestABoundPodHasADecision(t *testing.T) {
	runTest(t, func(w *testEnv) {
		w.a.Scores = map[string]int64{"n1": 10, "n2": 90, "n3": 50}
		b := w.blueprint("one")
		b.Decisions.Nodes = true
		w.run(b)
		defer w.startLeading()()
		w.create(webPod("a"))
		w.want("node", w.nodeOf("a"), "n2")
		w.want("condition", w.podScheduled("a"), "True")
		w.want("queue", w.counts(), "")
		w.wantLines("events", w.events.take(), "a Normal Scheduled: Successfully assigned default/a to n2")
		w.wantLines("calls", w.cluster.TakeCalls(), "bind a n2")
		var record map[string]any
		if err := json.Unmarshal([]byte(w.cluster.Pod(webPod("a")).Annotations[decision.AnnotationKey]), &record); err != nil {
			t.Fatal(err)
		}
		for key, want := range map[string]any{"profile": "p", "hash": "one", "generation": 7.0, "epoch": 3.0, "node": "n2", "evaluated": 3.0, "feasible": 3.0, "attempts": 1.0} {
			if record[key] != want {
				t.Errorf("annotation: %s is %v, want %v", key, record[key], want)
			}
		}
		if top := record["top"].([]any); len(top) != 2 {
			t.Errorf("the annotation names %d nodes, want the best 2", len(top))
		}
		page, _ := w.options.Ledger.History("p", 10)
		if page.Totals.Bound != 1 || len(page.Recent) != 1 || page.Recent[0].Node != "n2" {
			t.Errorf("ledger %+v", page)
		}
		if pods, assumed := w.cache.Sizes(); pods != 1 || assumed != 0 {
			t.Errorf("%d pods, %d assumed, want the informer's word for one", pods, assumed)
		}
	}, node("n1"), node("n2"), node("n3"))
}

func TestUnderDetailReasonsTheAnnotationNamesThePodsOwnNodeAlone(t *testing.T) {
	runTest(t, func(w *testEnv) {
		w.a.Scores = map[string]int64{"n1": 10, "n2": 90, "n3": 50}
		w.apply("one")
		defer w.startLeading()()
		w.create(webPod("a"))
		text := w.cluster.Pod(webPod("a")).Annotations[decision.AnnotationKey]
		var record map[string]any
		if err := json.Unmarshal([]byte(text), &record); err != nil {
			t.Fatal(err)
		}
		keys := slices.Sorted(maps.Keys(record))
		w.want("the annotation's keys", fmt.Sprint(keys), "[attempts epoch generation hash node profile v walk]")
		page, _ := w.options.Ledger.History("p", 10)
		if len(page.Recent) != 1 || page.Recent[0].Evaluated != 3 || page.Recent[0].Feasible != 3 {
			t.Errorf("the ledger, which the profile's readers see, has %+v", page.Recent)
		}
	}, node("n1"), node("n2"), node("n3"))
}

func TestARefusalReachesPodStatusLedgerAndQueue(t *testing.T) {
	runTest(t, func(w *testEnv) {
		w.a.SetStatus("Filter", probe.Reject("too small"))
		w.a.Events = []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}}}
		w.apply("one")
		defer w.startLeading()()
		w.create(webPod("a"))
		message := "0/2 nodes are available: 2 too small."
		w.want("condition", w.podScheduled("a"), "False Unschedulable: "+message)
		w.wantLines("events", w.events.take(), "a Warning FailedScheduling: "+message)
		w.want("queue", w.counts(), "1 unschedulable")
		page, _ := w.options.Ledger.History("p", 10)
		if page.Totals.Refusals != 1 || page.Recent[0].Message != message {
			t.Errorf("ledger %+v", page)
		}
		w.cluster.TakeCalls()
		w.a.SetStatus("Filter", nil)
		w.create(node("n3"))
		if w.nodeOf("a") == "" {
			t.Error("the new node did not wake the pod")
		}
	}, node("n1"), node("n2"))
}

func TestTheSameRefusalIsWrittenOnce(t *testing.T) {
	runTest(t, func(w *testEnv) {
		w.a.SetStatus("Filter", probe.Reject("too small"))
		w.apply("one")
		defer w.startLeading()()
		w.create(webPod("a"))
		w.cluster.TakeCalls()
		w.queue.Activate(w.ctx, map[string]*v1.Pod{"a": webPod("a")})
		synctest.Wait()
		w.wantLines("calls", w.cluster.TakeCalls())
	}, node("n1"))
}

// Each is an attempt that fails, and what is said of it.
func TestTheReasonOfAFailedAttempt(t *testing.T) {
	for sentence, c := range map[string]struct {
		arrange   func(w *testEnv)
		nodes     int
		condition string
		queue     string
	}{
		"without nodes a pod backs off as after an error, and is called unschedulable": {
			func(*testEnv) {}, 0, "False Unschedulable: no nodes available to schedule pods", "1 backoff",
		},
		"a plugin that fails is an error": {
			func(w *testEnv) { w.a.SetStatus("Filter", probe.Fail(errors.New("broken"))) }, 1,
			`False SchedulerError: running "A" filter plugin: broken`, "1 backoff",
		},
		"a plugin that panics is an error that names it": {
			func(w *testEnv) { w.a.SetStatus("PreFilter", probe.Panic) }, 1,
			`False SchedulerError: plugin "A" panicked in PreFilter: the probe panics`, "1 backoff",
		},
		"a refusal at Reserve is a verdict": {
			func(w *testEnv) { w.a.SetStatus("Reserve", probe.Reject("taken")) }, 1,
			"False Unschedulable: 0/1 nodes are available: 1 taken.", "1 unschedulable",
		},
		"a refusal at Permit is a verdict": {
			func(w *testEnv) { w.a.SetStatus("Permit", probe.Reject("not now")) }, 1,
			"False Unschedulable: 0/1 nodes are available: 1 not now.", "1 unschedulable",
		},
		"a refusal at PreBind is called unschedulable and tried again": {
			func(w *testEnv) {
				w.a.SetStatus("PreBind", probe.Reject("no volume"))
				w.a.SetStatus("PreBindPreFlight", nil)
			}, 1,
			"False Unschedulable: no volume", "1 backoff",
		},
		"a failure at PreBind is an error": {
			func(w *testEnv) {
				w.a.SetStatus("PreBind", probe.Fail(errors.New("broken")))
				w.a.SetStatus("PreBindPreFlight", nil)
			}, 1,
			`False SchedulerError: running PreBind plugin "A": broken`, "1 backoff",
		},
		"what the API server forbids is an error": {
			func(w *testEnv) {
				w.cluster.Inject(fakecluster.Fault{Verb: "bind", Err: apierrors.NewForbidden(v1.Resource("pods"), "a", errors.New("no")), Times: 9})
			}, 1,
			`False SchedulerError: running Bind plugin "DefaultBinder": pods "a" is forbidden: no`, "1 backoff",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			runTest(t, func(w *testEnv) {
				w.a.Events = []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}}}
				c.arrange(w)
				for range c.nodes {
					w.create(node("n1"))
				}
				w.apply("one")
				end := w.startLeading()
				w.create(webPod("a"))
				w.want("condition", w.podScheduled("a"), c.condition)
				w.want("queue", w.counts(), c.queue)
				if _, assumed := w.cache.Sizes(); assumed != 0 || w.nodeOf("a") != "" {
					t.Errorf("%d assumed, on %q", assumed, w.nodeOf("a"))
				}
				end()
			})
		})
	}
}

func TestAPodThatIsBeingDeletedIsNotTried(t *testing.T) {
	runTest(t, func(w *testEnv) {
		w.apply("one")
		defer w.startLeading()()
		w.create(fixture.Pod("a").SchedulerName("p").Terminating().Obj())
		w.wantLines("events", w.events.take(), "a Warning FailedScheduling: skip schedule deleting pod: default/a")
		w.want("queue", w.counts(), "")
		w.wantLines("calls", w.cluster.TakeCalls())
	}, node("n1"))
}

// The loop pops it, and then hears that somebody else has placed it.
func TestAPodThatGotANodeAfterItWasPoppedIsNotTried(t *testing.T) {
	runTest(t, func(w *testEnv) {
		w.apply("one")
		w.create(webPod("a"))
		attempt := w.queue.TryPop()
		w.cluster.UpdatePod(webPod("a"), func(p *v1.Pod) { p.Spec.NodeName = "n9" })
		synctest.Wait()
		w.journal.Take()
		w.scheduleOne(w.ctx, attempt)
		synctest.Wait()
		w.wantLines("calls of plugins", w.journal.Take())
		page, _ := w.options.Ledger.History("p", 1)
		if len(page.Recent) > 0 {
			t.Errorf("decided: %+v", page.Recent)
		}
	}, node("n1"))
}

func TestAFollowerWritesNothing(t *testing.T) {
	runTest(t, func(w *testEnv) {
		w.apply("one")
		w.create(webPod("a"))
		w.unsupported = "spec.resourceClaims"
		w.create(webPod("b"))
		time.Sleep(time.Hour)
		w.wantLines("calls", w.cluster.TakeCalls())
		w.wantLines("events", w.events.take())
		w.want("queue", w.counts(), "1 active, 1 parked")
		// Who leads next does what is to be done, and tells who is held.
		defer w.startLeading()()
		w.want("condition of b", w.podScheduled("b"), "False Unsupported: spec.resourceClaims: not yet")
		w.want("node of a", w.nodeOf("a"), "n1")
	}, node("n1"))
}

func TestFreedResourcesWakeOtherPodsButNotTheOneThatReleasedThem(t *testing.T) {
	runTest(t, func(w *testEnv) {
		w.a.Events = []fwk.ClusterEventWithHint{{Event: eventAssignedPodDelete}}
		// Of the promise that is taken back nobody hears who could always have
		// had its room.
		b := fixture.Pod("b").SchedulerName("p").Priority(9).Obj()
		w.a.PermitTimeout = time.Minute
		w.a.SetStatus("Permit", probe.Wait)
		w.apply("one")
		defer w.startLeading()()
		w.create(webPod("a"))
		w.a.SetStatus("Filter", probe.Reject("full"))
		w.create(b)
		w.want("queue", w.counts(), "1 unschedulable, 1 in flight")
		w.events.take()
		w.journal.Take()
		w.a.SetStatus("Filter", nil)
		w.a.SetStatus("Permit", nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		w.want("node of b", w.nodeOf("b"), "n1")
		lines := w.events.take()
		if len(lines) < 2 || !strings.HasPrefix(lines[0], "a Warning FailedScheduling: 0/1 nodes are available: 1 rejected due to timeout after waiting 1m0s at plugin A") {
			t.Errorf("events %q", lines)
		}
	}, node("n1"))
}

// In the loop nobody else can have looked between assuming and forgetting.
func TestARefusalInTheSchedulingCycleWakesNoPod(t *testing.T) {
	runTest(t, func(w *testEnv) {
		w.a.Events = []fwk.ClusterEventWithHint{{Event: eventAssignedPodDelete}}
		w.a.SetStatus("Reserve", probe.Reject("taken"))
		w.apply("one")
		defer w.startLeading()()
		w.create(webPod("a"))
		w.create(webPod("b"))
		w.want("queue", w.counts(), "2 unschedulable")
	}, node("n1"))
}

func TestAPodThatChangesWhileItIsBoundIsRetriedAtItsNewVersion(t *testing.T) {
	runTest(t, func(w *testEnv) {
		w.apply("one")
		defer w.startLeading()()
		once := false
		w.cluster.Inject(fakecluster.Fault{Verb: "bind", Before: func() {
			if !once {
				once = true
				w.cluster.UpdatePod(webPod("a"), func(p *v1.Pod) { p.Labels = map[string]string{"new": "label"} })
				synctest.Wait()
			}
		}})
		w.cluster.Apply(webPod("a"))
		time.Sleep(time.Minute)
		w.want("node", w.nodeOf("a"), "n1")
		w.wantLines("binds and reads", w.cluster.TakeCalls(), "bind a n1", "get a", "patch a", "bind a n1")
	}, node("n1"))
}

func TestANominationIsKeptUntilThePodIsPlacedOrGone(t *testing.T) {
	runTest(t, func(w *testEnv) {
		w.a.SetStatus("Filter", probe.Reject("full"))
		w.a.SetStatus("PostFilter", func() *fwk.Status { return nil })
		w.a.Nominates = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: "n1"}
		w.apply("one")
		defer w.startLeading()()
		w.create(webPod("a"), webPod("b"))
		w.want("nominated", w.cluster.Pod(webPod("a")).Status.NominatedNodeName, "n1")
		if n := w.cache.Nominations(); n != 2 {
			t.Fatalf("%d nominations, want 2", n)
		}
		w.cluster.DeletePod(webPod("b"))
		synctest.Wait()
		if n := w.cache.Nominations(); n != 1 {
			t.Errorf("%d nominations after one pod is gone, want 1", n)
		}
		w.a.SetStatus("Filter", nil)
		w.queue.Activate(w.ctx, map[string]*v1.Pod{"a": webPod("a")})
		synctest.Wait()
		w.want("node", w.nodeOf("a"), "n1")
		if n := w.cache.Nominations(); n != 0 {
			t.Errorf("%d nominations after the pod is placed, want 0", n)
		}
	}, node("n1"))
}

func TestAFailureTakesTheNominationBack(t *testing.T) {
	runTest(t, func(w *testEnv) {
		w.apply("one")
		w.a.SetStatus("Filter", probe.Fail(errors.New("broken")))
		defer w.startLeading()()
		w.create(fixture.Pod("a").SchedulerName("p").NominatedNodeName("n1").Obj())
		w.want("nominated", w.cluster.Pod(webPod("a")).Status.NominatedNodeName, "")
		if n := w.cache.Nominations(); n != 0 {
			t.Errorf("%d nominations, want 0", n)
		}
	}, node("n1"))
}

func TestAPodThatIsDeletedWhileItIsRefusedLeavesNoNomination(t *testing.T) {
	runTest(t, func(w *testEnv) {
		w.a.SetStatus("Filter", probe.Reject("full"))
		w.a.Nominates = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: "n1"}
		w.a.SetStatus("PostFilter", func() *fwk.Status {
			w.cluster.DeletePod(webPod("a"))
			synctest.Wait()
			return nil
		})
		w.apply("one")
		defer w.startLeading()()
		w.cluster.Apply(webPod("a"))
		time.Sleep(time.Second)
		if n := w.cache.Nominations(); n != 0 {
			t.Errorf("%d nominations of pods that are gone", n)
		}
		w.want("queue", w.counts(), "")
	}, node("n1"))
}

// Whoever is told of the deletion finds nobody at Permit yet.
func TestAPodThatIsDeletedBeforePermitDoesNotWaitThere(t *testing.T) {
	for sentence, leave := range map[string]func(w *testEnv){
		"because it is deleted": func(w *testEnv) { w.cluster.DeletePod(webPod("a")) },
		"because its deletion begins": func(w *testEnv) {
			w.cluster.UpdatePod(webPod("a"), func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} })
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			runTest(t, func(w *testEnv) {
				w.a.PermitTimeout = time.Hour
				w.a.SetStatus("Permit", func() *fwk.Status { leave(w); time.Sleep(time.Second); return probe.Wait() })
				w.apply("one")
				defer w.startLeading()()
				w.cluster.Apply(webPod("a"))
				time.Sleep(time.Minute)
				if n := w.waitingPods.Len(); n != 0 {
					t.Errorf("%d pods wait at Permit", n)
				}
				if _, assumed := w.cache.Sizes(); assumed != 0 {
					t.Errorf("%d pods are assumed", assumed)
				}
			}, node("n1"))
		})
	}
}

// Who looks finds it where it was to go, so that its binding is not undone.
func TestAPodBoundElsewhereAndDeletedBeforeItWasAssumedLeavesNothing(t *testing.T) {
	runTest(t, func(w *testEnv) {
		b := w.blueprint("one")
		b.Chains[framework.Bind] = []framework.Entry{{Name: "A"}}
		if err := w.Profiles().Apply(w.ctx, b); err != nil {
			t.Fatal(err)
		}
		defer w.startLeading()()
		w.a.SetStatus("Filter", func() *fwk.Status {
			w.cluster.UpdatePod(webPod("a"), func(p *v1.Pod) { p.Spec.NodeName = "n1" })
			synctest.Wait()
			w.cluster.DeletePod(webPod("a"))
			synctest.Wait()
			return nil
		})
		w.cluster.Apply(webPod("a"))
		time.Sleep(time.Second)
		if lines := w.events.take(); len(lines) != 1 || !strings.Contains(lines[0], "Scheduled") {
			t.Fatalf("what happened: %q", lines)
		}
		if pods, assumed := w.cache.Sizes(); pods+assumed != 0 {
			t.Errorf("%d pods are in the cache, %d of them assumed", pods, assumed)
		}
	}, node("n1"))
}

// A profile that is created anew looks at what the informer has stored, which may
// be ahead of what it tells: the queue forgets a pod then that was just bound.
func TestABoundPodThatTheQueueForgotKeepsItsResources(t *testing.T) {
	runTest(t, func(w *testEnv) {
		b := w.blueprint("one")
		b.Chains[framework.Bind] = []framework.Entry{{Name: "A"}}
		w.must(w.Profiles().Apply(w.ctx, b))
		defer w.startLeading()()
		w.a.SetStatus("Reserve", func() *fwk.Status { w.queue.Delete(webPod("a").UID); return nil })
		w.create(webPod("a"))
		if pods, _ := w.cache.Sizes(); pods != 1 {
			t.Errorf("%d pods are in the cache, want the one", pods)
		}
	}, node("n1"))
}

func TestTheEndOfALeadershipIsNoSchedulingFailure(t *testing.T) {
	runTest(t, func(w *testEnv) {
		w.a.PermitTimeout = time.Hour
		w.a.SetStatus("Permit", probe.Wait)
		w.apply("one")
		end := w.startLeading()
		w.create(webPod("a"))
		w.cluster.TakeCalls()
		end()
		w.wantLines("calls", w.cluster.TakeCalls())
		w.wantLines("events", w.events.take())
		if _, assumed := w.cache.Sizes(); assumed != 0 {
			t.Errorf("%d pods are still assumed", assumed)
		}
	}, node("n1"))
}

func TestEventNotesAreTruncated(t *testing.T) {
	long := strings.Repeat("é", 600)
	for sentence, c := range map[string]struct{ message, want string }{
		"a short message is a note as it is":                {"short", "short"},
		"one of exactly the limit too":                      {long[:1024], long[:1024]},
		"a longer one is cut, and between two characters":   {long, long[:1020] + " ..."},
		"a cut in the middle of a character goes before it": {"x" + long, "x" + long[:1018] + " ..."},
	} {
		t.Run(sentence, func(t *testing.T) {
			if got := truncate(c.message, maxEventNote); got != c.want {
				t.Errorf("%d bytes, want %d", len(got), len(c.want))
			}
		})
	}
}
