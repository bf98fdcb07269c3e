package scheduler

import (
	"fmt"
	"testing"
	"testing/synctest"

	gocmp "github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/test/fixture"
)

// writeAll takes from the Desk all that is due, as a writer without a budget does.
func (w *testEnv) writeAll() {
	desk := w.options.Explanations
	for {
		e, _, due := desk.Take()
		switch {
		case !due:
			return
		case e.Verb == decision.Delete:
			delete(w.explanations, e.Pod)
			desk.Deleted(e)
		default:
			w.explanations[e.Pod] = *e.Explanation
			desk.Written(e, "object of "+e.UID)
		}
	}
}

// why is the explanation of a pod, without times; nil when there is none.
func (w *testEnv) status(pod string) *decision.Status {
	w.writeAll()
	e, ok := w.explanations[pod]
	if !ok {
		return nil
	}
	e.Status.LastChange = metav1.Time{}
	if e.Status.Queue != nil {
		queue := *e.Status.Queue
		queue.Since = metav1.Time{}
		e.Status.Queue = &queue
	}
	return &e.Status
}

func (w *testEnv) wantStatus(pod string, want *decision.Status) {
	w.t.Helper()
	got := w.status(pod)
	if got != nil && want != nil {
		want.Profile = got.Profile
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		w.t.Errorf("why of %s (-want +got):\n%s", pod, diff)
	}
}

// explained runs a profile that differs in what it explains.
func (w *testEnv) explained(explain v1alpha1.Explain, detail v1alpha1.Detail) {
	w.t.Helper()
	b := *w.blueprint("explains " + string(explain) + string(detail))
	b.Decisions.Explain, b.Decisions.Nodes = explain, detail == v1alpha1.DetailNodes
	w.run(&b)
}

func (w *testEnv) run(b *compile.Blueprint) {
	w.t.Helper()
	if err := w.Profiles().Apply(w.ctx, b); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

func queueAt(where string) *decision.Queue { return &decision.Queue{Where: where} }

var (
	fitEvents = decision.RequeueEvents{Plugin: "NodeResourcesFit", Events: []string{
		"AssignedPod/Delete", "AssignedPod/UpdateScaleDown", "Node/Add", "Node/UpdateAllocatable", "TargetPod/UpdateScaleDown",
	}}
	taintEvents    = decision.RequeueEvents{Plugin: "TaintToleration", Events: []string{"Node/Add", "Node/UpdateTaint", "TargetPod/UpdateToleration"}}
	resourceEvents = decision.RequeueEvents{Plugin: "DefaultPreemption", Events: []string{"AssignedPod/Delete"}}
)

const insufficientCPU = "Insufficient cpu"

func TestARefusalIsExplained(t *testing.T) {
	runWithInTreePlugins(t, func(w *testEnv) {
		w.create(podWithCPUs("shop/big", 8, 0).Obj())
		w.wantStatus("big", &decision.Status{
			Result: "Unschedulable",
			Message: "0/4 nodes are available: 1 node(s) had untolerated taint(s), 3 Insufficient cpu. preemption: " +
				"0/4 nodes are available: 4 Preemption is not helpful for scheduling.",
			BlockedBy: "NodeResourcesFit 3, TaintToleration 1",
			Nodes:     &decision.Nodes{Total: 4, Evaluated: 4, Summary: "0/4"},
			Rejections: []decision.Rejection{
				{Plugin: "NodeResourcesFit", Code: "UnschedulableAndUnresolvable", Reason: insufficientCPU, Nodes: 3, ExampleNode: "n1"},
				{Plugin: "TaintToleration", Code: "UnschedulableAndUnresolvable", Reason: "node(s) had untolerated taint(s)", Nodes: 1, ExampleNode: "n4"},
			},
			ClosestNodes: []decision.ClosestNode{
				{Node: "n3", Missing: []decision.Missing{{Resource: "cpu", Requested: "8", Free: "3500m"}}},
				{Node: "n2", Missing: []decision.Missing{{Resource: "cpu", Requested: "8", Free: "3"}}},
				{Node: "n1", Missing: []decision.Missing{{Resource: "cpu", Requested: "8", Free: "2"}}},
			},
			Queue:         queueAt("Unschedulable"),
			RequeueEvents: []decision.RequeueEvents{fitEvents, taintEvents},
			Preemption:    &decision.PreemptionResult{Outcome: "NoCandidates"},
		})
	}, nodeWithCPUs("n1", 2), nodeWithCPUs("n2", 3), fixture.Node("n3").Capacity("cpu", "3500m", "pods", "9").Obj(),
		fixture.Node("n4").Capacity("cpu", "3", "pods", "9").Taint("key", "", v1.TaintEffectNoSchedule).Obj())
}

func TestEveryMissingResourceOfANodeIsExplained(t *testing.T) {
	for sentence, c := range map[string]struct {
		node *fixture.NodeBuilder
		pod  *fixture.PodBuilder
		want []decision.Missing
	}{
		"whoever refuses it beside the first": {
			fixture.Node("n1").Capacity("cpu", "1", "memory", "1Gi").Unschedulable().Taint("key", "", v1.TaintEffectNoExecute),
			podWithCPUs("shop/a", 2, 0).Requests("memory", "1536Mi"),
			[]decision.Missing{
				{Plugin: "NodeUnschedulable", Reason: "node(s) were unschedulable"},
				{Plugin: "TaintToleration", Reason: "node(s) had untolerated taint(s)"},
				{Resource: "cpu", Requested: "2", Free: "1"},
				{Resource: "memory", Requested: "1536Mi", Free: "1Gi"},
			},
		},
		"a place for the pod itself": {
			fixture.Node("n1").Capacity("cpu", "4", "pods", "0"), podWithCPUs("shop/a", 1, 0),
			[]decision.Missing{{Resource: "pods", Requested: "1", Free: "0"}},
		},
		"a vendor's resource": {
			fixture.Node("n1").Capacity("cpu", "4", "vendor.example/gpu", "1"), podWithCPUs("shop/a", 1, 0).Requests("vendor.example/gpu", "3"),
			[]decision.Missing{{Resource: "vendor.example/gpu", Requested: "3", Free: "1"}},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			runWithInTreePlugins(t, func(w *testEnv) {
				w.create(c.pod.Obj())
				var got []decision.ClosestNode
				if why := w.status("a"); why != nil {
					got = why.ClosestNodes
				}
				if diff := gocmp.Diff([]decision.ClosestNode{{Node: "n1", Missing: c.want}}, got); diff != "" {
					t.Errorf("nearest (-want +got):\n%s", diff)
				}
			}, c.node.Obj())
		})
	}
}

func TestAPodThatPreFilterRejectsIsExplained(t *testing.T) {
	named := podWithCPUs("shop/a", 1, 0).Mutate(func(p *v1.Pod) {
		term := v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{
			{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{"n1"}},
			{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{"n2"}},
		}}
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}},
		}}
	})
	runWithInTreePlugins(t, func(w *testEnv) {
		w.create(named.Obj())
		why := w.status("a")
		if why == nil {
			t.Fatal("it is not explained")
		}
		w.want("who", why.BlockedBy, "NodeAffinity 2")
		w.want("fits", fmt.Sprint(*why.Nodes), fmt.Sprint(decision.Nodes{Total: 2, Summary: "0/2"}))
		w.want("what is near", fmt.Sprint(why.ClosestNodes), "[]")
		want := []decision.Rejection{{Plugin: "NodeAffinity", Code: "UnschedulableAndUnresolvable", Reason: "pod affinity terms conflict", Nodes: 2}}
		if diff := gocmp.Diff(want, why.Rejections); diff != "" {
			t.Errorf("rejections (-want +got):\n%s", diff)
		}
	}, nodeWithCPUs("n1", 4), nodeWithCPUs("n2", 4))
}

// A DaemonSet's pod names its node; the others are ruled out by that.
func TestAPodThatNamesItsNodeIsExplainedByIt(t *testing.T) {
	named := podWithCPUs("shop/a", 8, 0).Mutate(func(p *v1.Pod) {
		term := v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{"n1"}}}}
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}},
		}}
	})
	runWithInTreePlugins(t, func(w *testEnv) {
		w.create(named.Obj())
		why := w.status("a")
		if why == nil {
			t.Fatal("it is not explained")
		}
		w.want("who", why.BlockedBy, "NodeAffinity 2, NodeResourcesFit 1")
		w.want("fits", fmt.Sprint(*why.Nodes), fmt.Sprint(decision.Nodes{Total: 3, Evaluated: 1, Summary: "0/3"}))
		w.want("what is near", fmt.Sprint(why.ClosestNodes), "[{n1 [{cpu 8 4  }]}]")
	}, nodeWithCPUs("n1", 4), nodeWithCPUs("n2", 9), nodeWithCPUs("n3", 9))
}
