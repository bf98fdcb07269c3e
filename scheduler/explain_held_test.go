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
	"github.com/berthdev/berth/test/support/fakecluster"
	"github.com/berthdev/berth/test/support/fixture"
)

func TestAPreemptionIsExplained(t *testing.T) {
	for name, c := range map[string]struct {
		pod     *fixture.PodBuilder
		act     func(env *testEnv)
		result  v1alpha1.DecisionResult
		want    v1alpha1.PreemptionResult
		message string
	}{
		"victims and candidates are counted": {
			pod: podWithCPUs("bank/big", 4, 9), result: "Preempting",
			want:    v1alpha1.PreemptionResult{Candidates: 2, Victims: 2, Outcome: "VictimsChosen"},
			message: "found a potential placement for pod on node <node>, preempting 2 victims",
		},
		"victims are terminating": {
			pod: podWithCPUs("bank/big", 4, 9), act: func(env *testEnv) { env.cluster.DeletePod(webPod("shop/a")) }, result: "Preempting",
			want:    v1alpha1.PreemptionResult{Outcome: "UnderWay"},
			message: "not eligible due to a terminating pod on the nominated node.",
		},
		"the pod's preemption policy is Never": {
			pod:    podWithCPUs("bank/big", 4, 9).Mutate(func(p *v1.Pod) { p.Spec.PreemptionPolicy = new(v1.PreemptNever) }),
			result: "Unschedulable", want: v1alpha1.PreemptionResult{Outcome: "NotEligible"}, message: "not eligible due to preemptionPolicy=Never.",
		},
		"no pod has a lower priority": {
			pod: podWithCPUs("bank/big", 4, 1), result: "Unschedulable", want: v1alpha1.PreemptionResult{Outcome: "NoCandidates"},
			message: "0/2 nodes are available: 2 No preemption victims found for incoming pod.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			runWithInTreePlugins(t, func(env *testEnv) {
				env.cluster.TerminateGracefully()
				env.create(c.pod.Obj())
				if c.act != nil {
					env.writeAll()
					c.act(env)
					time.Sleep(time.Minute)
					synctest.Wait()
				}
				why := env.status("big")
				if why == nil || why.Preemption == nil {
					t.Fatalf("it is not explained: %+v", why)
				}
				env.want("result", string(why.Result), string(c.result))
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
	runWithInTreePlugins(t, func(env *testEnv) {
		goOn := make(chan struct{})
		env.cluster.Inject(fakecluster.Fault{Verb: "delete"}, fakecluster.Fault{Verb: "delete", Before: func() { <-goOn }})
		env.create(podWithCPUs("bank/big", 4, 9).Obj())
		env.want("queue", env.counts(), "1 gated")
		env.wantStatus("big", &v1alpha1.SchedulingDecisionStatus{
			Result: "Preempting", Message: "plugin DefaultPreemption keeps the pod from being tried", BlockedBy: "DefaultPreemption",
			Queue: &v1alpha1.DecisionQueue{Where: "Gated", Gate: "DefaultPreemption"}, RequeueEvents: []v1alpha1.RequeueEvents{resourceEvents},
			Preemption: &v1alpha1.PreemptionResult{Candidates: 1, Victims: 2, Outcome: "UnderWay"},
		})
		close(goOn)
		synctest.Wait()
		time.Sleep(2 * time.Minute)
		env.wantStatus("big", nil)
	}, nodeWithCPUs("n1", 4), podWithCPUs("shop/a", 2, 2).On("n1").Obj(), podWithCPUs("shop/b", 2, 1).On("n1").Obj())
}

func TestAGatedPodIsExplained(t *testing.T) {
	runWithPreemptingProfile(t, func(env *testEnv) {
		gated := podWithCPUs("shop/a", 1, 0).SchedulingGate("example.com/quota").Obj()
		env.create(gated)
		env.wantStatus("a", nil) // a follower explains nothing
		defer env.startLeading()()
		env.wantStatus("a", &v1alpha1.SchedulingDecisionStatus{
			Result: "Gated", Message: "plugin SchedulingGates keeps the pod from being tried", BlockedBy: "SchedulingGates",
			Queue:         &v1alpha1.DecisionQueue{Where: "Gated", Gate: "SchedulingGates"},
			RequeueEvents: []v1alpha1.RequeueEvents{{Plugin: "SchedulingGates", Events: []string{"TargetPod/UpdateSchedulingGatesEliminated"}}},
		})
		env.create(podWithCPUs("shop/b", 1, 0).SchedulingGate("example.com/quota").Obj())
		if why := env.status("b"); why == nil || why.Result != "Gated" {
			t.Errorf("a pod created later: %+v", why)
		}
		env.cluster.UpdatePod(gated, func(p *v1.Pod) { p.Spec.SchedulingGates = nil })
		synctest.Wait()
		env.want("node", env.nodeOf("shop/a"), "n1")
		time.Sleep(time.Minute)
		env.wantStatus("a", nil)
	})
}

// runWithPreemptingProfile is runWithInTreePlugins without a leader.
func runWithPreemptingProfile(t *testing.T, test func(env *testEnv)) {
	runTestWith(t, plugins.InTree(), func(env *testEnv) {
		env.profile("p", nil)
		test(env)
	}, nodeWithCPUs("n1", 4))
}

func TestAHeldPodIsExplained(t *testing.T) {
	runWithInTreePlugins(t, func(env *testEnv) {
		env.create(podWithCPUs("shop/a", 8, 0).Obj())
		env.profiles.SetPaused("p", true)
		synctest.Wait()
		env.wantStatus("a", &v1alpha1.SchedulingDecisionStatus{
			Result: "Held", Message: "SchedulingProfile p is paused: the pod waits until its spec.state is Active",
			BlockedBy: "ProfilePaused", Queue: queueAt("Held"),
		})
		env.profiles.SetPaused("p", false)
		synctest.Wait()
		time.Sleep(time.Minute)
		if why := env.status("a"); why == nil || why.Result != "Unschedulable" {
			t.Errorf("after the profile was resumed: %+v", why)
		}
	}, nodeWithCPUs("n1", 4))
}

func TestAQuarantinedPodIsExplained(t *testing.T) {
	runWithFaultyPlugin(t, func(env *testEnv, o *faultyPlugin) {
		env.create(faultyPod("a", "Filter panics"))
		time.Sleep(2 * time.Minute)
		why := env.status("a")
		if why == nil || why.Result != "Quarantined" || why.BlockedBy != "Quarantined" || why.Queue.Where != "Held" ||
			!strings.HasPrefix(why.Message, `plugin "Odd" panicked repeatedly in Filter`) {
			t.Errorf("in the end: %+v", why)
		}
	})
}

func TestAChangeOfExplainReachesThePodsThatWait(t *testing.T) {
	for result, waits := range map[v1alpha1.DecisionResult]func(env *testEnv){
		"Unschedulable": func(env *testEnv) { env.create(podWithCPUs("shop/a", 8, 0).Obj()) },
		"Gated":         func(env *testEnv) { env.create(podWithCPUs("shop/a", 1, 0).SchedulingGate("example.com/quota").Obj()) },
		"Held":          func(env *testEnv) { env.profiles.SetPaused("p", true); env.create(podWithCPUs("shop/a", 1, 0).Obj()) },
	} {
		t.Run(string(result), func(t *testing.T) {
			runWithInTreePlugins(t, func(env *testEnv) {
				waits(env)
				settings := func(explain v1alpha1.Explain, nodes bool) *decision.Explanation {
					running, _ := env.profiles.Running("p")
					b := *running.Blueprint
					b.Hash += "'"
					b.Decisions.Explain, b.Decisions.Nodes = explain, nodes
					env.run(&b)
					time.Sleep(time.Minute) // in which backoffs end, and no flush comes
					if env.status("a") == nil {
						return nil
					}
					return new(env.explanations["a"])
				}
				if why := settings(v1alpha1.ExplainNone, false); why != nil {
					t.Errorf("with Explain None: %+v", why)
				}
				if why := settings(v1alpha1.ExplainAll, false); why == nil || why.Status.Result != result || why.Nodes {
					t.Errorf("with explanations again, without nodes: %+v", why)
				}
				if why := settings(v1alpha1.ExplainAll, true); why == nil || why.Status.Result != result || !why.Nodes {
					t.Errorf("with detail Nodes: %+v", why)
				}
				if why := settings(v1alpha1.ExplainRefusals, false); why == nil || why.Status.Result != result || why.Nodes {
					t.Errorf("with detail Reasons again: %+v", why)
				}
			}, nodeWithCPUs("n1", 4))
		})
	}
}
