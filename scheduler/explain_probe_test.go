package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/test/fixture"
	"github.com/berthdev/berth/test/probe"
)

func TestEveryAnswerOfAPluginIsExplained(t *testing.T) {
	for sentence, c := range map[string]struct {
		point  string
		answer probe.StatusFunc
		want   *decision.Status
	}{
		"a pod that waits at Permit": {"Permit", probe.Wait, &decision.Status{
			Result: "WaitingOnPermit", Message: "a node is chosen; the pod waits for A", BlockedBy: "A",
			Nodes: &decision.Nodes{Total: 2, Evaluated: 2, Feasible: 2, Summary: "2/2"}, Queue: queueAt("InFlight"),
		}},
		"a plugin that fails": {"Filter", probe.Fail(errPlugin), &decision.Status{
			Result: "Error", Message: `running "A" filter plugin: broken`, Queue: queueAt("Backoff"),
		}},
		"a plugin that refuses the node that was chosen": {"Reserve", probe.Reject("no"), &decision.Status{
			Result: "Unschedulable", Message: "0/1 nodes are available: 1 no.", BlockedBy: "A 1",
			Nodes:      &decision.Nodes{Total: 2, Evaluated: 2, Feasible: 2, Summary: "2/2"},
			Rejections: []decision.Rejection{{Plugin: "A", Code: "Unschedulable", Reason: "no", Nodes: 1, ExampleNode: "n1"}},
			Queue:      queueAt("Unschedulable"), RequeueEvents: []decision.RequeueEvents{{Plugin: "A", Events: []string{"Node/Add", "Node/UpdateLabel"}}},
		}},
		"a plugin that refuses the pod when it is too late": {"PreBind", probe.Reject("no"), &decision.Status{
			Result: "Unschedulable", Message: "no", BlockedBy: "A",
			Nodes: &decision.Nodes{Total: 2, Evaluated: 2, Feasible: 2, Summary: "2/2"}, Queue: queueAt("Backoff"),
		}},
		"a plugin that is not built in refuses nodes": {"Filter", probe.Reject("no"), &decision.Status{
			Result: "Unschedulable", Message: "0/2 nodes are available: 2 no.", BlockedBy: "A 2",
			Nodes:      &decision.Nodes{Total: 2, Evaluated: 2, Summary: "0/2"},
			Rejections: []decision.Rejection{{Plugin: "A", Code: "Unschedulable", Reason: "no", Nodes: 2, ExampleNode: "n1"}},
			ClosestNodes: []decision.ClosestNode{
				{Node: "n1", Missing: []decision.Missing{{Plugin: "A", Reason: "no"}}}, {Node: "n2", Missing: []decision.Missing{{Plugin: "A", Reason: "no"}}},
			},
			Queue: queueAt("Unschedulable"), RequeueEvents: []decision.RequeueEvents{{Plugin: "A", Events: []string{"Node/Add", "Node/UpdateLabel"}}},
		}},
	} {
		t.Run(sentence, func(t *testing.T) {
			runTest(t, func(w *testEnv) {
				w.a.PermitTimeout = time.Hour
				w.a.Events = []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel}}}
				w.a.SetStatus(c.point, c.answer)
				w.a.SetStatus("PreBindPreFlight", nil) // so that PreBind is asked
				w.explained(v1alpha1.ExplainRefusals, v1alpha1.DetailReasons)
				defer w.startLeading()()
				w.create(webPod("a"))
				w.wantStatus("a", c.want)
			}, node("n1"), node("n2"))
		})
	}
}

func TestAPodWithoutNodesIsExplained(t *testing.T) {
	runTest(t, func(w *testEnv) {
		w.explained(v1alpha1.ExplainRefusals, v1alpha1.DetailReasons)
		defer w.startLeading()()
		w.create(webPod("a"))
		w.wantStatus("a", &decision.Status{
			Result: "Unschedulable", Message: "no nodes available to schedule pods", Nodes: &decision.Nodes{Summary: "0/0"}, Queue: queueAt("Backoff"),
		})
	})
}

func TestTheProfileSelectsWhichPodsAreExplained(t *testing.T) {
	refused := &decision.Status{
		Result: "Unschedulable", Message: "0/1 nodes are available: 1 no.", BlockedBy: "A 1",
		Nodes:        &decision.Nodes{Total: 1, Evaluated: 1, Summary: "0/1"},
		Rejections:   []decision.Rejection{{Plugin: "A", Code: "Unschedulable", Reason: "no", Nodes: 1, ExampleNode: "n1"}},
		ClosestNodes: []decision.ClosestNode{{Node: "n1", Missing: []decision.Missing{{Plugin: "A", Reason: "no"}}}},
		Queue:        queueAt("Unschedulable"),
	}
	bound := &decision.Status{Result: "Bound", Nodes: &decision.Nodes{Total: 1, Evaluated: 1, Feasible: 1, Summary: "1/1"}}
	for explain, want := range map[v1alpha1.Explain]struct{ refused, bound *decision.Status }{
		v1alpha1.ExplainNone:     {nil, nil},
		v1alpha1.ExplainRefusals: {refused, nil},
		v1alpha1.ExplainAll:      {refused, bound},
	} {
		t.Run(string(explain), func(t *testing.T) {
			runTest(t, func(w *testEnv) {
				w.a.Events = []fwk.ClusterEventWithHint{}
				w.explained(explain, v1alpha1.DetailReasons)
				defer w.startLeading()()
				w.create(webPod("bound"))
				w.wantStatus("bound", want.bound)
				w.a.SetStatus("Filter", probe.Reject("no"))
				w.create(webPod("refused"))
				w.wantStatus("refused", want.refused)
				time.Sleep(time.Minute)
				w.wantStatus("bound", nil)
			}, node("n1"))
		})
	}
}

func TestAnExplanationNamesNoOtherTenantsObject(t *testing.T) {
	runTest(t, func(w *testEnv) {
		w.a.SetStatus("Filter", probe.Reject(`node "n1" (n1/4) is kept for bank/secret, 1 of 2; not for shop/a.`))
		w.explained(v1alpha1.ExplainRefusals, v1alpha1.DetailReasons)
		defer w.startLeading()()
		w.create(fixture.Pod("shop/a").SchedulerName("p").Obj())
		const said = `node "<node>" (<node>/4) is kept for <pod>, 1 of 2; not for shop/a.`
		why := w.status("a")
		if why == nil {
			t.Fatal("it is not explained")
		}
		w.want("message", why.Message, "0/1 nodes are available: 1 "+said+".")
		w.want("reason", why.Rejections[0].Reason, said)
		w.want("missing", why.ClosestNodes[0].Missing[0].Reason, said)

		w.explained(v1alpha1.ExplainRefusals, v1alpha1.DetailNodes)
		time.Sleep(2 * time.Minute)
		w.want("reason, where nodes may be named", w.status("a").Rejections[0].Reason, `node "n1" (n1/4) is kept for <pod>, 1 of 2; not for shop/a.`)

		// Nobody asks for it: what stands must not.
		w.explained(v1alpha1.ExplainRefusals, v1alpha1.DetailReasons)
		time.Sleep(2 * time.Minute)
		w.want("reason, where they may not any more", w.status("a").Rejections[0].Reason, said)
	}, node("n1"), fixture.Pod("bank/secret").On("n1").Obj())
}

func TestAPodThatIsDeletedIsExplainedNoMore(t *testing.T) {
	runTest(t, func(w *testEnv) {
		refuse := probe.Reject("no")
		w.a.SetStatus("Filter", refuse)
		w.explained(v1alpha1.ExplainRefusals, v1alpha1.DetailReasons)
		defer w.startLeading()()
		w.create(webPod("a"))
		if w.status("a") == nil {
			t.Fatal("it is not explained")
		}
		w.cluster.DeletePod(webPod("a"))
		synctest.Wait()
		w.wantStatus("a", nil)
		// This one goes while it is tried.
		w.a.SetStatus("Filter", func() *fwk.Status {
			w.cluster.DeletePod(webPod("b"))
			time.Sleep(time.Millisecond)
			return refuse()
		})
		w.create(webPod("b"))
		time.Sleep(time.Second)
		w.wantStatus("b", nil)
		// And this one as soon as it is bound.
		w.a.SetStatus("Filter", nil)
		w.explained(v1alpha1.ExplainAll, v1alpha1.DetailReasons)
		w.create(webPod("c"))
		if w.status("c") == nil {
			t.Fatal("it is not explained that it is bound")
		}
		w.cluster.DeletePod(webPod("c"))
		synctest.Wait()
		w.wantStatus("c", nil)
	}, node("n1"))
}
