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

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fakecluster"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/probe"
)

func TestABoundPodHasADecision(t *testing.T) {
	runTest(t, func(env *testEnv) {
		env.a.Scores = map[string]int64{"n1": 10, "n2": 90, "n3": 50}
		b := env.blueprint("one")
		b.Decisions.Nodes = true
		env.run(b)
		defer env.startLeading()()
		env.create(webPod("a"))
		env.want("node", env.nodeOf("a"), "n2")
		env.want("condition", env.podScheduled("a"), "True")
		env.want("queue", env.counts(), "")
		env.wantLines("events", env.events.take(), "a Normal Scheduled: Successfully assigned default/a to n2")
		env.wantLines("calls", env.cluster.TakeCalls(), "bind a n2")
		var record map[string]any
		if err := json.Unmarshal([]byte(env.cluster.Pod(webPod("a")).Annotations[v1alpha1.AnnotationDecision]), &record); err != nil {
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
		history, _ := env.options.Ledger.History("p", 10)
		if history.Totals.Bound != 1 || len(history.Recent) != 1 || history.Recent[0].Node != "n2" {
			t.Errorf("ledger %+v", history)
		}
		if pods, assumed := env.cache.Sizes(); pods != 1 || assumed != 0 {
			t.Errorf("%d pods, %d assumed, want one that the informer confirmed", pods, assumed)
		}
	}, node("n1"), node("n2"), node("n3"))
}

func TestUnderDetailReasonsTheAnnotationNamesThePodsOwnNodeAlone(t *testing.T) {
	runTest(t, func(env *testEnv) {
		env.a.Scores = map[string]int64{"n1": 10, "n2": 90, "n3": 50}
		env.apply("one")
		defer env.startLeading()()
		env.create(webPod("a"))
		text := env.cluster.Pod(webPod("a")).Annotations[v1alpha1.AnnotationDecision]
		var record map[string]any
		if err := json.Unmarshal([]byte(text), &record); err != nil {
			t.Fatal(err)
		}
		keys := slices.Sorted(maps.Keys(record))
		env.want("the annotation's keys", fmt.Sprint(keys), "[attempts epoch generation hash node profile v walk]")
		history, _ := env.options.Ledger.History("p", 10)
		if len(history.Recent) != 1 || history.Recent[0].Evaluated != 3 || history.Recent[0].Feasible != 3 {
			t.Errorf("the ledger has %+v", history.Recent)
		}
	}, node("n1"), node("n2"), node("n3"))
}

func TestARefusalReachesPodStatusLedgerAndQueue(t *testing.T) {
	runTest(t, func(env *testEnv) {
		env.a.SetStatus("Filter", probe.Reject("too small"))
		env.a.Events = []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}}}
		env.apply("one")
		defer env.startLeading()()
		env.create(webPod("a"))
		message := "0/2 nodes are available: 2 too small."
		env.want("condition", env.podScheduled("a"), "False Unschedulable: "+message)
		env.wantLines("events", env.events.take(), "a Warning FailedScheduling: "+message)
		env.want("queue", env.counts(), "1 unschedulable")
		history, _ := env.options.Ledger.History("p", 10)
		if history.Totals.Refusals != 1 || history.Recent[0].Message != message {
			t.Errorf("ledger %+v", history)
		}
		env.cluster.TakeCalls()
		env.a.SetStatus("Filter", nil)
		env.create(node("n3"))
		if env.nodeOf("a") == "" {
			t.Error("the new node did not wake the pod")
		}
	}, node("n1"), node("n2"))
}

func TestTheSameRefusalIsWrittenOnce(t *testing.T) {
	runTest(t, func(env *testEnv) {
		env.a.SetStatus("Filter", probe.Reject("too small"))
		env.apply("one")
		defer env.startLeading()()
		env.create(webPod("a"))
		env.cluster.TakeCalls()
		env.queue.Activate(env.ctx, map[string]*v1.Pod{"a": webPod("a")})
		synctest.Wait()
		env.wantLines("calls", env.cluster.TakeCalls())
	}, node("n1"))
}

// Each case is an attempt that fails, and the condition that results.
func TestTheReasonOfAFailedAttempt(t *testing.T) {
	for name, c := range map[string]struct {
		arrange   func(env *testEnv)
		nodes     int
		condition string
		queue     string
	}{
		"without nodes a pod backs off as after an error, with reason Unschedulable": {
			func(*testEnv) {}, 0, "False Unschedulable: no nodes available to schedule pods", "1 backoff",
		},
		"a plugin error is a SchedulerError": {
			func(env *testEnv) { env.a.SetStatus("Filter", probe.Fail(errors.New("broken"))) }, 1,
			`False SchedulerError: running "A" filter plugin: broken`, "1 backoff",
		},
		"a plugin that panics is an error that names it": {
			func(env *testEnv) { env.a.SetStatus("PreFilter", probe.Panic) }, 1,
			`False SchedulerError: plugin "A" panicked in PreFilter: the probe panics`, "1 backoff",
		},
		"a rejection at Reserve is Unschedulable": {
			func(env *testEnv) { env.a.SetStatus("Reserve", probe.Reject("taken")) }, 1,
			"False Unschedulable: 0/1 nodes are available: 1 taken.", "1 unschedulable",
		},
		"a rejection at Permit is Unschedulable": {
			func(env *testEnv) { env.a.SetStatus("Permit", probe.Reject("not now")) }, 1,
			"False Unschedulable: 0/1 nodes are available: 1 not now.", "1 unschedulable",
		},
		"a rejection at PreBind is Unschedulable and retried": {
			func(env *testEnv) {
				env.a.SetStatus("PreBind", probe.Reject("no volume"))
				env.a.SetStatus("PreBindPreFlight", nil)
			}, 1,
			"False Unschedulable: no volume", "1 backoff",
		},
		"a failure at PreBind is an error": {
			func(env *testEnv) {
				env.a.SetStatus("PreBind", probe.Fail(errors.New("broken")))
				env.a.SetStatus("PreBindPreFlight", nil)
			}, 1,
			`False SchedulerError: running PreBind plugin "A": broken`, "1 backoff",
		},
		"what the API server forbids is an error": {
			func(env *testEnv) {
				env.cluster.Inject(fakecluster.Fault{Verb: "bind", Err: apierrors.NewForbidden(v1.Resource("pods"), "a", errors.New("no")), Times: 9})
			}, 1,
			`False SchedulerError: running Bind plugin "DefaultBinder": pods "a" is forbidden: no`, "1 backoff",
		},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(env *testEnv) {
				env.a.Events = []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}}}
				c.arrange(env)
				for range c.nodes {
					env.create(node("n1"))
				}
				env.apply("one")
				end := env.startLeading()
				env.create(webPod("a"))
				env.want("condition", env.podScheduled("a"), c.condition)
				env.want("queue", env.counts(), c.queue)
				if _, assumed := env.cache.Sizes(); assumed != 0 || env.nodeOf("a") != "" {
					t.Errorf("%d assumed, on %q", assumed, env.nodeOf("a"))
				}
				end()
			})
		})
	}
}

func TestAPodThatIsBeingDeletedIsNotTried(t *testing.T) {
	runTest(t, func(env *testEnv) {
		env.apply("one")
		defer env.startLeading()()
		env.create(fixture.Pod("a").SchedulerName("p").Terminating().Obj())
		env.wantLines("events", env.events.take(), "a Warning FailedScheduling: skip schedule deleting pod: default/a")
		env.want("queue", env.counts(), "")
		env.wantLines("calls", env.cluster.TakeCalls())
	}, node("n1"))
}

// The loop pops the pod; then the informer reports that another scheduler bound it.
func TestAPodThatGotANodeAfterItWasPoppedIsNotTried(t *testing.T) {
	runTest(t, func(env *testEnv) {
		env.apply("one")
		env.create(webPod("a"))
		attempt := env.queue.TryPop()
		env.cluster.UpdatePod(webPod("a"), func(p *v1.Pod) { p.Spec.NodeName = "n9" })
		synctest.Wait()
		env.journal.Take()
		env.scheduleOne(env.ctx, attempt, nil)
		synctest.Wait()
		env.wantLines("calls of plugins", env.journal.Take())
		history, _ := env.options.Ledger.History("p", 1)
		if len(history.Recent) > 0 {
			t.Errorf("decisions: %+v", history.Recent)
		}
	}, node("n1"))
}

func TestAFollowerWritesNothing(t *testing.T) {
	runTest(t, func(env *testEnv) {
		env.apply("one")
		env.create(webPod("a"))
		env.unsupported = "spec.resourceClaims"
		env.create(webPod("b"))
		time.Sleep(time.Hour)
		env.wantLines("calls", env.cluster.TakeCalls())
		env.wantLines("events", env.events.take())
		env.want("queue", env.counts(), "1 active, 1 held")
		// A new leader schedules the pod, and writes the status of the held one.
		defer env.startLeading()()
		env.want("condition of b", env.podScheduled("b"), "False Unsupported: spec.resourceClaims: not yet")
		env.want("node of a", env.nodeOf("a"), "n1")
	}, node("n1"))
}

func TestFreedResourcesWakeOtherPodsButNotTheOneThatReleasedThem(t *testing.T) {
	runTest(t, func(env *testEnv) {
		env.a.Events = []fwk.ClusterEventWithHint{{Event: eventAssignedPodDelete}}
		// The end of the nomination requeues no pod that could always have had the
		// resources.
		b := fixture.Pod("b").SchedulerName("p").Priority(9).Obj()
		env.a.PermitTimeout = time.Minute
		env.a.SetStatus("Permit", probe.Wait)
		env.apply("one")
		defer env.startLeading()()
		env.create(webPod("a"))
		env.a.SetStatus("Filter", probe.Reject("full"))
		env.create(b)
		env.want("queue", env.counts(), "1 unschedulable, 1 in flight")
		env.events.take()
		env.journal.Take()
		env.a.SetStatus("Filter", nil)
		env.a.SetStatus("Permit", nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		env.want("node of b", env.nodeOf("b"), "n1")
		lines := env.events.take()
		if len(lines) < 2 || !strings.HasPrefix(lines[0], "a Warning FailedScheduling: 0/1 nodes are available: 1 rejected due to timeout after waiting 1m0s at plugin A") {
			t.Errorf("events %q", lines)
		}
	}, node("n1"))
}

// No other pod is tried between assume and undo in one scheduling cycle.
func TestARefusalInTheSchedulingCycleWakesNoPod(t *testing.T) {
	runTest(t, func(env *testEnv) {
		env.a.Events = []fwk.ClusterEventWithHint{{Event: eventAssignedPodDelete}}
		env.a.SetStatus("Reserve", probe.Reject("taken"))
		env.apply("one")
		defer env.startLeading()()
		env.create(webPod("a"))
		env.create(webPod("b"))
		env.want("queue", env.counts(), "2 unschedulable")
	}, node("n1"))
}

func TestAPodThatChangesWhileItIsBoundIsRetriedAtItsNewVersion(t *testing.T) {
	runTest(t, func(env *testEnv) {
		env.apply("one")
		defer env.startLeading()()
		once := false
		env.cluster.Inject(fakecluster.Fault{Verb: "bind", Before: func() {
			if !once {
				once = true
				env.cluster.UpdatePod(webPod("a"), func(p *v1.Pod) { p.Labels = map[string]string{"new": "label"} })
				synctest.Wait()
			}
		}})
		env.cluster.Apply(webPod("a"))
		time.Sleep(time.Minute)
		env.want("node", env.nodeOf("a"), "n1")
		env.wantLines("binds and reads", env.cluster.TakeCalls(), "bind a n1", "get a", "patch a", "bind a n1")
	}, node("n1"))
}

func TestANominationIsKeptUntilThePodIsPlacedOrGone(t *testing.T) {
	runTest(t, func(env *testEnv) {
		env.a.SetStatus("Filter", probe.Reject("full"))
		env.a.SetStatus("PostFilter", func() *fwk.Status { return nil })
		env.a.Nominates = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: "n1"}
		env.apply("one")
		defer env.startLeading()()
		env.create(webPod("a"), webPod("b"))
		env.want("nominated", env.cluster.Pod(webPod("a")).Status.NominatedNodeName, "n1")
		if n := env.cache.Nominations(); n != 2 {
			t.Fatalf("%d nominations, want 2", n)
		}
		env.cluster.DeletePod(webPod("b"))
		synctest.Wait()
		if n := env.cache.Nominations(); n != 1 {
			t.Errorf("%d nominations after one pod was deleted, want 1", n)
		}
		env.a.SetStatus("Filter", nil)
		env.queue.Activate(env.ctx, map[string]*v1.Pod{"a": webPod("a")})
		synctest.Wait()
		env.want("node", env.nodeOf("a"), "n1")
		if n := env.cache.Nominations(); n != 0 {
			t.Errorf("%d nominations after the pod was bound, want 0", n)
		}
	}, node("n1"))
}

func TestAFailureTakesTheNominationBack(t *testing.T) {
	runTest(t, func(env *testEnv) {
		env.apply("one")
		env.a.SetStatus("Filter", probe.Fail(errors.New("broken")))
		defer env.startLeading()()
		env.create(fixture.Pod("a").SchedulerName("p").NominatedNodeName("n1").Obj())
		env.want("nominated", env.cluster.Pod(webPod("a")).Status.NominatedNodeName, "")
		if n := env.cache.Nominations(); n != 0 {
			t.Errorf("%d nominations, want 0", n)
		}
	}, node("n1"))
}

func TestAPodThatIsDeletedWhileItIsRefusedLeavesNoNomination(t *testing.T) {
	runTest(t, func(env *testEnv) {
		env.a.SetStatus("Filter", probe.Reject("full"))
		env.a.Nominates = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: "n1"}
		env.a.SetStatus("PostFilter", func() *fwk.Status {
			env.cluster.DeletePod(webPod("a"))
			synctest.Wait()
			return nil
		})
		env.apply("one")
		defer env.startLeading()()
		env.cluster.Apply(webPod("a"))
		time.Sleep(time.Second)
		if n := env.cache.Nominations(); n != 0 {
			t.Errorf("%d nominations of deleted pods", n)
		}
		env.want("queue", env.counts(), "")
	}, node("n1"))
}

// The event handler of the deletion runs before the pod waits on Permit.
func TestAPodThatIsDeletedBeforePermitDoesNotWaitThere(t *testing.T) {
	for name, leave := range map[string]func(env *testEnv){
		"because it is deleted": func(env *testEnv) { env.cluster.DeletePod(webPod("a")) },
		"because it is terminating": func(env *testEnv) {
			env.cluster.UpdatePod(webPod("a"), func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} })
		},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(env *testEnv) {
				env.a.PermitTimeout = time.Hour
				env.a.SetStatus("Permit", func() *fwk.Status { leave(env); time.Sleep(time.Second); return probe.Wait() })
				env.apply("one")
				defer env.startLeading()()
				env.cluster.Apply(webPod("a"))
				time.Sleep(time.Minute)
				if n := env.QueueCounts("p").Waiting; n != 0 {
					t.Errorf("%d pods wait on Permit", n)
				}
				if _, assumed := env.cache.Sizes(); assumed != 0 {
					t.Errorf("%d pods are assumed", assumed)
				}
			}, node("n1"))
		})
	}
}

// Who looks finds it where it was to go, so that its binding is not undone.
func TestAPodBoundElsewhereAndDeletedBeforeItWasAssumedLeavesNothing(t *testing.T) {
	runTest(t, func(env *testEnv) {
		b := env.blueprint("one")
		b.Chains[framework.Bind] = []framework.Entry{{Name: "A"}}
		if err := env.Profiles().Apply(env.ctx, b); err != nil {
			t.Fatal(err)
		}
		defer env.startLeading()()
		env.a.SetStatus("Filter", func() *fwk.Status {
			env.cluster.UpdatePod(webPod("a"), func(p *v1.Pod) { p.Spec.NodeName = "n1" })
			synctest.Wait()
			env.cluster.DeletePod(webPod("a"))
			synctest.Wait()
			return nil
		})
		env.cluster.Apply(webPod("a"))
		time.Sleep(time.Second)
		if lines := env.events.take(); len(lines) != 1 || !strings.Contains(lines[0], "Scheduled") {
			t.Fatalf("what happened: %q", lines)
		}
		if pods, assumed := env.cache.Sizes(); pods+assumed != 0 {
			t.Errorf("%d pods are in the cache, %d of them assumed", pods, assumed)
		}
	}, node("n1"))
}

// A new profile adds pods from the informer's store, which may be ahead of its events: then
// the queue forgets a pod that was just bound.
func TestABoundPodThatTheQueueForgotKeepsItsResources(t *testing.T) {
	runTest(t, func(env *testEnv) {
		b := env.blueprint("one")
		b.Chains[framework.Bind] = []framework.Entry{{Name: "A"}}
		env.must(env.Profiles().Apply(env.ctx, b))
		defer env.startLeading()()
		env.a.SetStatus("Reserve", func() *fwk.Status { env.queue.Delete(webPod("a").UID); return nil })
		env.create(webPod("a"))
		if pods, _ := env.cache.Sizes(); pods != 1 {
			t.Errorf("%d pods are in the cache, want the one", pods)
		}
	}, node("n1"))
}

func TestTheEndOfALeadershipIsNoSchedulingFailure(t *testing.T) {
	runTest(t, func(env *testEnv) {
		env.a.PermitTimeout = time.Hour
		env.a.SetStatus("Permit", probe.Wait)
		env.apply("one")
		end := env.startLeading()
		env.create(webPod("a"))
		env.cluster.TakeCalls()
		end()
		env.wantLines("calls", env.cluster.TakeCalls())
		env.wantLines("events", env.events.take())
		if _, assumed := env.cache.Sizes(); assumed != 0 {
			t.Errorf("%d pods are still assumed", assumed)
		}
	}, node("n1"))
}

func TestEventNotesAreTruncated(t *testing.T) {
	long := strings.Repeat("é", 600)
	for name, c := range map[string]struct{ message, want string }{
		"a short message is not changed":                    {"short", "short"},
		"a message of exactly the limit is not changed":     {long[:1024], long[:1024]},
		"a longer one is cut between two characters":        {long, long[:1020] + " ..."},
		"a cut in the middle of a character goes before it": {"x" + long, "x" + long[:1018] + " ..."},
	} {
		t.Run(name, func(t *testing.T) {
			if got := decision.TruncateBytes(c.message, maxEventNote, " ..."); got != c.want {
				t.Errorf("%d bytes, want %d", len(got), len(c.want))
			}
		})
	}
}
