package scheduler

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins/defaultbinder"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/probe"
)

func TestEveryAnswerOfAPluginIsExplained(t *testing.T) {
	for name, c := range map[string]struct {
		point  string
		answer probe.StatusFunc
		want   *v1alpha1.SchedulingDecisionStatus
	}{
		"a pod that waits on Permit": {"Permit", probe.Wait, &v1alpha1.SchedulingDecisionStatus{
			Result: "WaitingOnPermit", Message: "a node is chosen; the pod waits for A", BlockedBy: "A",
			Nodes: &v1alpha1.DecisionNodes{Total: 2, Evaluated: 2, Feasible: 2, Summary: "2/2"}, Queue: queueAt("InFlight"),
		}},
		"a plugin that fails": {"Filter", probe.Fail(errPlugin), &v1alpha1.SchedulingDecisionStatus{
			Result: "Error", Message: `running "A" filter plugin: broken`, Queue: queueAt("Backoff"),
		}},
		"a plugin that rejects the chosen node": {"Reserve", probe.Reject("no"), &v1alpha1.SchedulingDecisionStatus{
			Result: "Unschedulable", Message: "0/1 nodes are available: 1 no.", BlockedBy: "A 1",
			Nodes:      &v1alpha1.DecisionNodes{Total: 2, Evaluated: 2, Feasible: 2, Summary: "2/2"},
			Rejections: []v1alpha1.Rejection{{Plugin: "A", Code: "Unschedulable", Reason: "no", Nodes: 1, ExampleNode: "n1"}},
			Queue:      queueAt("Unschedulable"), RequeueEvents: []v1alpha1.RequeueEvents{{Plugin: "A", Events: []string{"Node/Add", "Node/UpdateLabel"}}},
		}},
		"a plugin that rejects the pod in PreBind": {"PreBind", probe.Reject("no"), &v1alpha1.SchedulingDecisionStatus{
			Result: "Unschedulable", Message: "no", BlockedBy: "A",
			Nodes: &v1alpha1.DecisionNodes{Total: 2, Evaluated: 2, Feasible: 2, Summary: "2/2"}, Queue: queueAt("Backoff"),
		}},
		"an out-of-tree plugin rejects nodes": {"Filter", probe.Reject("no"), &v1alpha1.SchedulingDecisionStatus{
			Result: "Unschedulable", Message: "0/2 nodes are available: 2 no.", BlockedBy: "A 2",
			Nodes:      &v1alpha1.DecisionNodes{Total: 2, Evaluated: 2, Summary: "0/2"},
			Rejections: []v1alpha1.Rejection{{Plugin: "A", Code: "Unschedulable", Reason: "no", Nodes: 2, ExampleNode: "n1"}},
			ClosestNodes: []v1alpha1.ClosestNode{
				{Node: "n1", Missing: []v1alpha1.Missing{{Plugin: "A", Reason: "no"}}}, {Node: "n2", Missing: []v1alpha1.Missing{{Plugin: "A", Reason: "no"}}},
			},
			Queue: queueAt("Unschedulable"), RequeueEvents: []v1alpha1.RequeueEvents{{Plugin: "A", Events: []string{"Node/Add", "Node/UpdateLabel"}}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(env *testEnv) {
				env.a.PermitTimeout = time.Hour
				env.a.Events = []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel}}}
				env.a.SetStatus(c.point, c.answer)
				env.a.SetStatus("PreBindPreFlight", nil) // so that PreBind is called
				env.explained(v1alpha1.ExplainRefusals, v1alpha1.DetailReasons)
				defer env.startLeading()()
				env.create(webPod("a"))
				env.wantStatus("a", c.want)
			}, node("n1"), node("n2"))
		})
	}
}

func TestAPodWithoutNodesIsExplained(t *testing.T) {
	runTest(t, func(env *testEnv) {
		env.explained(v1alpha1.ExplainRefusals, v1alpha1.DetailReasons)
		defer env.startLeading()()
		env.create(webPod("a"))
		env.wantStatus("a", &v1alpha1.SchedulingDecisionStatus{
			Result: "Unschedulable", Message: "no nodes available to schedule pods", Nodes: &v1alpha1.DecisionNodes{Summary: "0/0"}, Queue: queueAt("Backoff"),
		})
	})
}

func TestTheProfileSelectsWhichPodsAreExplained(t *testing.T) {
	refused := &v1alpha1.SchedulingDecisionStatus{
		Result: "Unschedulable", Message: "0/1 nodes are available: 1 no.", BlockedBy: "A 1",
		Nodes:        &v1alpha1.DecisionNodes{Total: 1, Evaluated: 1, Summary: "0/1"},
		Rejections:   []v1alpha1.Rejection{{Plugin: "A", Code: "Unschedulable", Reason: "no", Nodes: 1, ExampleNode: "n1"}},
		ClosestNodes: []v1alpha1.ClosestNode{{Node: "n1", Missing: []v1alpha1.Missing{{Plugin: "A", Reason: "no"}}}},
		Queue:        queueAt("Unschedulable"),
	}
	bound := &v1alpha1.SchedulingDecisionStatus{Result: "Bound", Nodes: &v1alpha1.DecisionNodes{Total: 1, Evaluated: 1, Feasible: 1, Summary: "1/1"}}
	for explain, want := range map[v1alpha1.Explain]struct {
		refused, bound *v1alpha1.SchedulingDecisionStatus
	}{
		v1alpha1.ExplainNone:     {nil, nil},
		v1alpha1.ExplainRefusals: {refused, nil},
		v1alpha1.ExplainAll:      {refused, bound},
	} {
		t.Run(string(explain), func(t *testing.T) {
			runTest(t, func(env *testEnv) {
				env.a.Events = []fwk.ClusterEventWithHint{}
				env.explained(explain, v1alpha1.DetailReasons)
				defer env.startLeading()()
				env.create(webPod("bound"))
				env.wantStatus("bound", want.bound)
				env.a.SetStatus("Filter", probe.Reject("no"))
				env.create(webPod("refused"))
				env.wantStatus("refused", want.refused)
				time.Sleep(time.Minute)
				env.wantStatus("bound", nil)
			}, node("n1"))
		})
	}
}

func TestAnExplanationNamesNoOtherTenantsObject(t *testing.T) {
	runTest(t, func(env *testEnv) {
		env.a.SetStatus("Filter", probe.Reject(`node "n1" (n1/4) is kept for bank/secret, 1 of 2; not for shop/a. See pods/bank/secret, bank/secret/main, https://api:443/api/v1/namespaces/bank/pods/secret/log and pods/shop/a`))
		env.explained(v1alpha1.ExplainRefusals, v1alpha1.DetailReasons)
		defer env.startLeading()()
		env.create(fixture.Pod("shop/a").SchedulerName("p").Obj())
		const paths = ` See pods/<pod>, <pod>/main, https://api:443/api/v1/namespaces/<pod>/log and pods/shop/a`
		const said = `node "<node>" (<node>/4) is kept for <pod>, 1 of 2; not for shop/a.` + paths
		why := env.status("a")
		if why == nil {
			t.Fatal("it is not explained")
		}
		env.want("message", why.Message, "0/1 nodes are available: 1 "+said+".")
		env.want("reason", why.Rejections[0].Reason, said)
		env.want("missing", why.ClosestNodes[0].Missing[0].Reason, said)

		env.explained(v1alpha1.ExplainRefusals, v1alpha1.DetailNodes)
		time.Sleep(2 * time.Minute)
		env.want("reason, with detail Nodes", env.status("a").Rejections[0].Reason, `node "n1" (n1/4) is kept for <pod>, 1 of 2; not for shop/a.`+paths)

		// Nothing reads it: the existing object must be deleted.
		env.explained(v1alpha1.ExplainRefusals, v1alpha1.DetailReasons)
		time.Sleep(2 * time.Minute)
		env.want("reason, with detail Reasons again", env.status("a").Rejections[0].Reason, said)
	}, node("n1"), fixture.Pod("bank/secret").On("n1").Obj())
}

// The message is cut before it is redacted, and redaction shortens it: half a name at the cut would
// stay.
func TestALongExplanationNamesNoNode(t *testing.T) {
	const name = "node-of-a-customer-with-a-name-that-is-long-enough"
	for padding := range 4 {
		runTest(t, func(env *testEnv) {
			env.a.SetStatus("Filter", probe.Reject("no quota on "+strings.Repeat("x", padding*len(name)/4)+strings.Repeat(" "+name, 2*v1alpha1.MaxExplanation/len(name))))
			env.explained(v1alpha1.ExplainRefusals, v1alpha1.DetailReasons)
			defer env.startLeading()()
			env.create(webPod("a"))
			why := env.status("a")
			if why == nil {
				t.Fatal("it is not explained")
			}
			if !strings.Contains(why.Message, "<node>") || strings.Contains(why.Message, "node-") {
				t.Errorf("the message is %q", why.Message)
			}
		}, node(name))
	}
}

// Why a pod was not tried or waited is not true any more while PreBind runs.
func TestAPodThatIsBeingBoundIsNotExplained(t *testing.T) {
	for name, pass := range map[string]struct{ explained, after func(env *testEnv) }{
		"a pod that was refused fits": {refusedWith(nil), relabelled},
		"a pod on Permit is allowed":  {waits, func(env *testEnv) { env.waitingPods.Get(webPod("a").UID).Allow("A") }},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(env *testEnv) {
				begun, release := false, make(chan struct{})
				env.a.PermitTimeout = time.Hour
				env.a.SetStatus("PreBindPreFlight", nil) // so that PreBind is called
				env.a.OnPreBind = func(context.Context) { begun = true; <-release }
				pass.explained(env)
				env.explained(v1alpha1.ExplainRefusals, v1alpha1.DetailReasons)
				defer env.startLeading()()
				env.create(webPod("a"))
				if env.status("a") == nil {
					t.Fatal("it is not explained")
				}
				pass.after(env)
				time.Sleep(time.Minute)
				synctest.Wait()
				if !begun {
					t.Fatal("it is not in PreBind")
				}
				env.wantStatus("a", nil)
				env.a.SetStatus("PreBind", probe.Fail(errPlugin))
				close(release)
				time.Sleep(time.Millisecond)
				if why := env.status("a"); why == nil || why.Result != v1alpha1.ResultError {
					t.Errorf("after a failure in PreBind: %+v", why)
				}
			}, node("n1"))
		})
	}
}

func TestAPodThatIsDeletedIsExplainedNoMore(t *testing.T) {
	runTest(t, func(env *testEnv) {
		refuse := probe.Reject("no")
		env.a.SetStatus("Filter", refuse)
		env.explained(v1alpha1.ExplainRefusals, v1alpha1.DetailReasons)
		defer env.startLeading()()
		env.create(webPod("a"))
		if env.status("a") == nil {
			t.Fatal("it is not explained")
		}
		env.cluster.DeletePod(webPod("a"))
		synctest.Wait()
		env.wantStatus("a", nil)
		// This pod is deleted during its attempt.
		env.a.SetStatus("Filter", func() *fwk.Status {
			env.cluster.DeletePod(webPod("b"))
			time.Sleep(time.Millisecond)
			return refuse()
		})
		env.create(webPod("b"))
		time.Sleep(time.Second)
		env.wantStatus("b", nil)
		// And this one gives its name to another pod, which is explained before its attempt ends.
		env.a.SetStatus("Filter", func() *fwk.Status {
			env.a.SetStatus("Filter", refuse)
			env.cluster.DeletePod(webPod("d"))
			env.a.SetStatus("PreEnqueue", probe.Reject("later"))
			env.cluster.Apply(fixture.Pod("d").SchedulerName("p").UID("another").Obj())
			time.Sleep(time.Second)
			if why := env.status("d"); why == nil || why.Result != "Gated" {
				t.Errorf("the other pod: %+v", why)
			}
			return refuse()
		})
		env.create(webPod("d"))
		time.Sleep(2 * time.Minute)
		if why := env.status("d"); why == nil || why.Result != "Gated" {
			t.Errorf("the other pod, after the attempt of the first one: %+v", why)
		}
		env.a.SetStatus("PreEnqueue", nil)
		// And this one is deleted as soon as it is bound.
		env.a.SetStatus("Filter", nil)
		env.explained(v1alpha1.ExplainAll, v1alpha1.DetailReasons)
		env.create(webPod("c"))
		if env.status("c") == nil {
			t.Fatal("it is not explained that it is bound")
		}
		env.cluster.DeletePod(webPod("c"))
		synctest.Wait()
		env.wantStatus("c", nil)
	}, node("n1"))
}

// podGate is a plugin that refuses all nodes, and whose PreEnqueue depends on the pod.
type podGate struct {
	*probe.Plugin
	preEnqueue func(pod *v1.Pod) *fwk.Status
}

func (g podGate) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status { return g.preEnqueue(pod) }

// While a handler of an informer is busy, the informer's store goes on. A profile that begins to run
// lists the pods of the store, and the events of earlier pods of their names come after that.
func TestLateEventsOfADeletedPodLeaveTheExplanationOfItsSuccessor(t *testing.T) {
	for name, ofFirst := range map[string]*fwk.Status{
		"the deleted pod is tried": nil,
		"the deleted pod is gated": fwk.NewStatus(fwk.Unschedulable, "later"),
	} {
		t.Run(name, func(t *testing.T) {
			refusing := &probe.Plugin{PluginName: "A", Log: &probe.CallLog{}, Statuses: map[string]probe.StatusFunc{"Filter": probe.Reject("no")}}
			gate := podGate{refusing, func(pod *v1.Pod) *fwk.Status {
				switch {
				case pod.UID == "first":
					return ofFirst
				case pod.Name != "e":
					time.Sleep(5 * time.Second)
				}
				return nil
			}}
			registry := framework.Registry{
				"A":                {Name: "A", New: func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return gate, nil }},
				defaultbinder.Name: {Name: defaultbinder.Name, New: defaultbinder.New},
			}
			runTestWith(t, registry, func(env *testEnv) {
				env.explained(v1alpha1.ExplainRefusals, v1alpha1.DetailReasons)
				defer env.startLeading()()
				env.create(webPod("slow"))
				first := fixture.Pod("e").SchedulerName("p").UID("first").Obj()
				env.create(first, webPod("slow-too"))
				env.cluster.DeletePod(webPod("slow-too"))
				env.cluster.DeletePod(webPod("slow"))
				env.cluster.DeletePod(first)
				env.create(fixture.Pod("e").SchedulerName("p").UID("second").Obj())
				env.Profiles().Delete("p")
				env.explained(v1alpha1.ExplainRefusals, v1alpha1.DetailReasons)
				time.Sleep(time.Second)
				for _, when := range []string{"before", "after"} {
					if why := env.status("e"); why == nil || why.Result != v1alpha1.ResultUnschedulable {
						t.Errorf("%s the events of the first pod: %+v", when, why)
					}
					time.Sleep(time.Minute)
				}
			}, node("n"))
		})
	}
}
