package scheduler

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/test/fakecluster"
	"github.com/berthdev/berth/test/fixture"
)

func TestAPreemptionIsExplained(t *testing.T) {
	for sentence, c := range map[string]struct {
		pod     *fixture.PodBuilder
		act     func(w *testEnv)
		result  v1alpha1.DecisionResult
		want    decision.PreemptionResult
		message string
	}{
		"victims are counted, and the nodes that would have done": {
			pod: podWithCPUs("bank/big", 4, 9), result: "Preempting",
			want:    decision.PreemptionResult{Candidates: 2, Victims: 2, Outcome: "VictimsChosen"},
			message: "found a potential placement for pod on node <node>, preempting 2 victims",
		},
		"who waits for the last of them is told so": {
			pod: podWithCPUs("bank/big", 4, 9), act: func(w *testEnv) { w.cluster.DeletePod(webPod("shop/a")) }, result: "Preempting",
			want:    decision.PreemptionResult{Outcome: "UnderWay"},
			message: "not eligible due to a terminating pod on the nominated node.",
		},
		"who may not preempt is told so": {
			pod:    podWithCPUs("bank/big", 4, 9).Mutate(func(p *v1.Pod) { p.Spec.PreemptionPolicy = new(v1.PreemptNever) }),
			result: "Unschedulable", want: decision.PreemptionResult{Outcome: "NotEligible"}, message: "not eligible due to preemptionPolicy=Never.",
		},
		"who is not important enough is told so": {
			pod: podWithCPUs("bank/big", 4, 1), result: "Unschedulable", want: decision.PreemptionResult{Outcome: "NoCandidates"},
			message: "0/2 nodes are available: 2 No preemption victims found for incoming pod.",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			runWithInTreePlugins(t, func(w *testEnv) {
				w.cluster.TerminateGracefully()
				w.create(c.pod.Obj())
				if c.act != nil {
					w.writeAll()
					c.act(w)
					time.Sleep(time.Minute)
					synctest.Wait()
				}
				why := w.status("big")
				if why == nil || why.Preemption == nil {
					t.Fatalf("it is not explained: %+v", why)
				}
				w.want("result", string(why.Result), string(c.result))
				if *why.Preemption != c.want {
					t.Errorf("preemption %+v, want %+v", *why.Preemption, c.want)
				}
				if !strings.HasSuffix(why.Message, " preemption: "+c.message) {
					t.Errorf("message %q, want one that ends with %q", why.Message, c.message)
				}
			}, nodeWithCPUs("n1", 4), podWithCPUs("shop/a", 2, 1).On("n1").Obj(), podWithCPUs("shop/b", 2, 1).On("n1").Obj(),
				nodeWithCPUs("n2", 4), podWithCPUs("shop/c", 2, 2).On("n2").Obj(), podWithCPUs("shop/d", 2, 2).On("n2").Obj())
		})
	}
}

func TestAPodWhoseVictimsAreBeingEvictedIsNoGatedPod(t *testing.T) {
	runWithInTreePlugins(t, func(w *testEnv) {
		goOn := make(chan struct{})
		w.cluster.Inject(fakecluster.Fault{Verb: "delete"}, fakecluster.Fault{Verb: "delete", Before: func() { <-goOn }})
		w.create(podWithCPUs("bank/big", 4, 9).Obj())
		w.want("queue", w.counts(), "1 gated")
		w.wantStatus("big", &decision.Status{
			Result: "Preempting", Message: "plugin DefaultPreemption keeps the pod from being tried", BlockedBy: "DefaultPreemption",
			Queue: &decision.Queue{Where: "Gated", Gate: "DefaultPreemption"}, RequeueEvents: []decision.RequeueEvents{resourceEvents},
			Preemption: &decision.PreemptionResult{Outcome: "UnderWay"},
		})
		close(goOn)
		synctest.Wait()
		time.Sleep(2 * time.Minute)
		w.wantStatus("big", nil)
	}, nodeWithCPUs("n1", 4), podWithCPUs("shop/a", 2, 2).On("n1").Obj(), podWithCPUs("shop/b", 2, 1).On("n1").Obj())
}

func TestAGatedPodIsExplained(t *testing.T) {
	runWithPreemptingProfile(t, func(w *testEnv) {
		gated := podWithCPUs("shop/a", 1, 0).SchedulingGate("example.com/quota").Obj()
		w.create(gated)
		w.wantStatus("a", nil) // a follower explains nothing
		defer w.startLeading()()
		w.wantStatus("a", &decision.Status{
			Result: "Gated", Message: "plugin SchedulingGates keeps the pod from being tried", BlockedBy: "SchedulingGates",
			Queue:         &decision.Queue{Where: "Gated", Gate: "SchedulingGates"},
			RequeueEvents: []decision.RequeueEvents{{Plugin: "SchedulingGates", Events: []string{"TargetPod/UpdateSchedulingGatesEliminated"}}},
		})
		w.create(podWithCPUs("shop/b", 1, 0).SchedulingGate("example.com/quota").Obj())
		if why := w.status("b"); why == nil || why.Result != "Gated" {
			t.Errorf("one that comes later: %+v", why)
		}
		w.cluster.UpdatePod(gated, func(p *v1.Pod) { p.Spec.SchedulingGates = nil })
		synctest.Wait()
		w.want("node", w.nodeOf("shop/a"), "n1")
		time.Sleep(time.Minute)
		w.wantStatus("a", nil)
	})
}

// inTimeWithTown is inTown, but that nothing leads yet.
func runWithPreemptingProfile(t *testing.T, test func(w *testEnv)) {
	runTestWith(t, plugins.InTree(), func(w *testEnv) {
		w.profile("p", nil)
		test(w)
	}, nodeWithCPUs("n1", 4))
}

func TestAHeldPodIsExplained(t *testing.T) {
	runWithInTreePlugins(t, func(w *testEnv) {
		w.create(podWithCPUs("shop/a", 8, 0).Obj())
		w.profiles.SetPaused("p", true)
		synctest.Wait()
		w.wantStatus("a", &decision.Status{
			Result: "Held", Message: "SchedulingProfile p is paused: the pod waits until its spec.state is Active",
			BlockedBy: "ProfilePaused", Queue: queueAt("Held"),
		})
		w.profiles.SetPaused("p", false)
		synctest.Wait()
		time.Sleep(time.Minute)
		if why := w.status("a"); why == nil || why.Result != "Unschedulable" {
			t.Errorf("when it is not paused any more: %+v", why)
		}
	}, nodeWithCPUs("n1", 4))
}

func TestAQuarantinedPodIsExplained(t *testing.T) {
	runWithFaultyPlugin(t, func(w *testEnv, o *faultyPlugin) {
		w.create(faultyPod("a", "Filter panics"))
		time.Sleep(2 * time.Minute)
		why := w.status("a")
		if why == nil || why.Result != "Quarantined" || why.BlockedBy != "Quarantined" || why.Queue.Where != "Held" ||
			!strings.HasPrefix(why.Message, `plugin "Odd" panicked repeatedly in Filter`) {
			t.Errorf("in the end: %+v", why)
		}
	})
}

func TestAChangeOfExplainReachesThePodsThatWait(t *testing.T) {
	for result, waits := range map[v1alpha1.DecisionResult]func(w *testEnv){
		"Unschedulable": func(w *testEnv) { w.create(podWithCPUs("shop/a", 8, 0).Obj()) },
		"Gated":         func(w *testEnv) { w.create(podWithCPUs("shop/a", 1, 0).SchedulingGate("example.com/quota").Obj()) },
		"Held":          func(w *testEnv) { w.profiles.SetPaused("p", true); w.create(podWithCPUs("shop/a", 1, 0).Obj()) },
	} {
		t.Run(string(result), func(t *testing.T) {
			runWithInTreePlugins(t, func(w *testEnv) {
				waits(w)
				tells := func(explain v1alpha1.Explain, nodes bool) *decision.Explanation {
					running, _ := w.profiles.Running("p")
					b := *running.Blueprint
					b.Hash += "'"
					b.Decisions.Explain, b.Decisions.Nodes = explain, nodes
					w.run(&b)
					time.Sleep(time.Minute) // in which backoffs end, and no flush comes
					if w.status("a") == nil {
						return nil
					}
					return new(w.explanations["a"])
				}
				if why := tells(v1alpha1.ExplainNone, false); why != nil {
					t.Errorf("where nobody is to be explained any more, it is: %+v", why)
				}
				if why := tells(v1alpha1.ExplainAll, false); why == nil || why.Status.Result != result || why.Nodes {
					t.Errorf("where it is to be explained again, without nodes: %+v", why)
				}
				if why := tells(v1alpha1.ExplainAll, true); why == nil || why.Status.Result != result || !why.Nodes {
					t.Errorf("where nodes may be named: %+v", why)
				}
				if why := tells(v1alpha1.ExplainRefusals, false); why == nil || why.Status.Result != result || why.Nodes {
					t.Errorf("where they may not any more: %+v", why)
				}
			}, nodeWithCPUs("n1", 4))
		})
	}
}
