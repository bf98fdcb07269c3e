package scheduler

import (
	"fmt"
	"testing"
	"testing/synctest"

	gocmp "github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/explain"
	"github.com/berthdev/berth/test/support/fixture"
)

// writeAll takes all due tasks from the explanation queue, as a writer without a rate limit.
func (env *testEnv) writeAll() {
	explanations := env.options.Explanations
	for {
		e, _, due := explanations.Take()
		switch {
		case !due:
			return
		case e.Verb == explain.Delete:
			delete(env.explanations, e.Pod)
			explanations.Deleted(e)
		default:
			env.explanations[e.Pod] = *e.Explanation
			explanations.Written(e, "object of "+e.UID)
		}
	}
}

// status returns the explanation of a pod without times; nil when there is none.
func (env *testEnv) status(pod string) *v1alpha1.SchedulingDecisionStatus {
	env.writeAll()
	e, ok := env.explanations[pod]
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

func (env *testEnv) wantStatus(pod string, want *v1alpha1.SchedulingDecisionStatus) {
	env.t.Helper()
	got := env.status(pod)
	if got != nil && want != nil {
		want.Profile = got.Profile
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		env.t.Errorf("explanation of %s (-want +got):\n%s", pod, diff)
	}
}

// explained applies a profile that differs in what it explains.
func (env *testEnv) explained(explain v1alpha1.Explain, detail v1alpha1.Detail) {
	env.t.Helper()
	b := *env.blueprint("explains " + string(explain) + string(detail))
	b.Decisions.Explain, b.Decisions.Nodes = explain, detail == v1alpha1.DetailNodes
	env.run(&b)
}

func (env *testEnv) run(b *compile.Blueprint) {
	env.t.Helper()
	if err := env.Profiles().Apply(env.ctx, b); err != nil {
		env.t.Fatal(err)
	}
	synctest.Wait()
}

func queueAt(where string) *v1alpha1.DecisionQueue { return &v1alpha1.DecisionQueue{Where: where} }

var (
	fitEvents = v1alpha1.RequeueEvents{Plugin: "NodeResourcesFit", Events: []string{
		"AssignedPod/Delete", "AssignedPod/UpdateScaleDown", "Node/Add", "Node/UpdateAllocatable", "TargetPod/UpdateScaleDown",
		"resource.k8s.io/DeviceClass/Add", "resource.k8s.io/DeviceClass/Update",
	}}
	taintEvents    = v1alpha1.RequeueEvents{Plugin: "TaintToleration", Events: []string{"Node/Add", "Node/UpdateTaint", "TargetPod/UpdateToleration"}}
	resourceEvents = v1alpha1.RequeueEvents{Plugin: "DefaultPreemption", Events: []string{"AssignedPod/Delete"}}
)

const insufficientCPU = "Insufficient cpu"

func TestARefusalIsExplained(t *testing.T) {
	runWithInTreePlugins(t, func(env *testEnv) {
		env.create(podWithCPUs("shop/big", 8, 0).Obj())
		env.wantStatus("big", &v1alpha1.SchedulingDecisionStatus{
			Result: "Unschedulable",
			Message: "0/4 nodes are available: 1 node(s) had untolerated taint(s), 3 Insufficient cpu. preemption: " +
				"0/4 nodes are available: 4 Preemption is not helpful for scheduling.",
			BlockedBy: "NodeResourcesFit 3, TaintToleration 1",
			Nodes:     &v1alpha1.DecisionNodes{Total: 4, Evaluated: 4, Summary: "0/4"},
			Rejections: []v1alpha1.Rejection{
				{Plugin: "NodeResourcesFit", Code: "UnschedulableAndUnresolvable", Reason: insufficientCPU, Nodes: 3, ExampleNode: "n1"},
				{Plugin: "TaintToleration", Code: "UnschedulableAndUnresolvable", Reason: "node(s) had untolerated taint(s)", Nodes: 1, ExampleNode: "n4"},
			},
			ClosestNodes: []v1alpha1.ClosestNode{
				{Node: "n3", Missing: []v1alpha1.Missing{{Resource: "cpu", Requested: "8", Free: "3500m"}}},
				{Node: "n2", Missing: []v1alpha1.Missing{{Resource: "cpu", Requested: "8", Free: "3"}}},
				{Node: "n1", Missing: []v1alpha1.Missing{{Resource: "cpu", Requested: "8", Free: "2"}}},
			},
			Queue:         queueAt("Unschedulable"),
			RequeueEvents: []v1alpha1.RequeueEvents{fitEvents, taintEvents},
			Preemption:    &v1alpha1.PreemptionResult{Outcome: "NoCandidates"},
		})
	}, nodeWithCPUs("n1", 2), nodeWithCPUs("n2", 3), fixture.Node("n3").Capacity("cpu", "3500m", "pods", "9").Obj(),
		fixture.Node("n4").Capacity("cpu", "3", "pods", "9").Taint("key", "", v1.TaintEffectNoSchedule).Obj())
}

func TestEveryMissingResourceOfANodeIsExplained(t *testing.T) {
	for name, c := range map[string]struct {
		node *fixture.NodeBuilder
		pod  *fixture.PodBuilder
		want []v1alpha1.Missing
	}{
		"a second plugin that rejects the node": {
			fixture.Node("n1").Capacity("cpu", "1", "memory", "1Gi").Unschedulable().Taint("key", "", v1.TaintEffectNoExecute),
			podWithCPUs("shop/a", 2, 0).Requests("memory", "1536Mi"),
			[]v1alpha1.Missing{
				{Plugin: "NodeUnschedulable", Reason: "node(s) were unschedulable"},
				{Plugin: "TaintToleration", Reason: "node(s) had untolerated taint(s)"},
				{Resource: "cpu", Requested: "2", Free: "1"},
				{Resource: "memory", Requested: "1536Mi", Free: "1Gi"},
			},
		},
		"pods": {
			fixture.Node("n1").Capacity("cpu", "4", "pods", "0"), podWithCPUs("shop/a", 1, 0),
			[]v1alpha1.Missing{{Resource: "pods", Requested: "1", Free: "0"}},
		},
		"an extended resource": {
			fixture.Node("n1").Capacity("cpu", "4", "vendor.example/gpu", "1"), podWithCPUs("shop/a", 1, 0).Requests("vendor.example/gpu", "3"),
			[]v1alpha1.Missing{{Resource: "vendor.example/gpu", Requested: "3", Free: "1"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			runWithInTreePlugins(t, func(env *testEnv) {
				env.create(c.pod.Obj())
				var got []v1alpha1.ClosestNode
				if why := env.status("a"); why != nil {
					got = why.ClosestNodes
				}
				if diff := gocmp.Diff([]v1alpha1.ClosestNode{{Node: "n1", Missing: c.want}}, got); diff != "" {
					t.Errorf("closest nodes (-want +got):\n%s", diff)
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
	runWithInTreePlugins(t, func(env *testEnv) {
		env.create(named.Obj())
		why := env.status("a")
		if why == nil {
			t.Fatal("it is not explained")
		}
		env.want("rejections", why.BlockedBy, "NodeAffinity 2")
		env.want("fits", fmt.Sprint(*why.Nodes), fmt.Sprint(v1alpha1.DecisionNodes{Total: 2, Summary: "0/2"}))
		env.want("closest nodes", fmt.Sprint(why.ClosestNodes), "[]")
		want := []v1alpha1.Rejection{{Plugin: "NodeAffinity", Code: "UnschedulableAndUnresolvable", Reason: "pod affinity terms conflict", Nodes: 2}}
		if diff := gocmp.Diff(want, why.Rejections); diff != "" {
			t.Errorf("rejections (-want +got):\n%s", diff)
		}
	}, nodeWithCPUs("n1", 4), nodeWithCPUs("n2", 4))
}

// A DaemonSet's pod has an affinity for its node, which excludes the others.
func TestAPodThatNamesItsNodeIsExplainedByIt(t *testing.T) {
	named := podWithCPUs("shop/a", 8, 0).Mutate(func(p *v1.Pod) {
		term := v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{"n1"}}}}
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}},
		}}
	})
	runWithInTreePlugins(t, func(env *testEnv) {
		env.create(named.Obj())
		why := env.status("a")
		if why == nil {
			t.Fatal("it is not explained")
		}
		env.want("rejections", why.BlockedBy, "NodeAffinity 2, NodeResourcesFit 1")
		env.want("fits", fmt.Sprint(*why.Nodes), fmt.Sprint(v1alpha1.DecisionNodes{Total: 3, Evaluated: 1, Summary: "0/3"}))
		env.want("closest nodes", fmt.Sprint(why.ClosestNodes), "[{n1 [{cpu  8 4  }]}]")
	}, nodeWithCPUs("n1", 4), nodeWithCPUs("n2", 9), nodeWithCPUs("n3", 9))
}

// The closest nodes of a pending pod are nodes that it may get by waiting, not those that
// its own selector or a taint of an administrator excludes.
func TestTheClosestNodesAreThoseThatWaitingMayOpen(t *testing.T) {
	node := func(name, zone, cpu string) *fixture.NodeBuilder {
		return fixture.Node(name).Label(v1.LabelTopologyZone, zone).Capacity("cpu", cpu, "pods", "9")
	}
	const notReady, dedicated = "node.kubernetes.io/not-ready", "example.com/dedicated"
	inZone1 := func() *fixture.PodBuilder {
		return podWithCPUs("shop/a", 8, 0).NodeSelector(v1.LabelTopologyZone, "zone-1")
	}
	for name, c := range map[string]struct {
		pod   *fixture.PodBuilder
		nodes []*fixture.NodeBuilder
		want  string
	}{
		"a pod that selects zone-1 gets nodes of zone-1, though those of zone-2 have free resources": {
			inZone1(), []*fixture.NodeBuilder{node("a", "zone-2", "64"), node("b", "zone-1", "2"), node("c", "zone-2", "9"), node("d", "zone-1", "4")},
			"[{d [{cpu  8 4  }]} {b [{cpu  8 2  }]}]",
		},
		"the same where another plugin rejected the nodes of zone-2 before": {
			inZone1(), []*fixture.NodeBuilder{
				node("a", "zone-2", "64").Unschedulable(), node("b", "zone-2", "64").Unschedulable(), node("c", "zone-2", "64").Unschedulable(),
				node("d", "zone-1", "4").Unschedulable(),
			},
			"[{d [{    NodeUnschedulable node(s) were unschedulable} {cpu  8 4  }]}]",
		},
		"a node that is not ready is listed, one with a taint that the pod does not tolerate is not": {
			podWithCPUs("shop/a", 8, 0), []*fixture.NodeBuilder{
				node("a", "zone-1", "2"), node("b", "zone-1", "64").Taint(notReady, "", v1.TaintEffectNoSchedule),
				node("c", "zone-1", "64").Taint(dedicated, "", v1.TaintEffectNoSchedule),
			},
			"[{b [{    TaintToleration node(s) had untolerated taint(s)}]} {a [{cpu  8 2  }]}]",
		},
		"a node without the label of a topology spread constraint is not listed": {
			podWithCPUs("shop/a", 8, 0).Spread(v1.TopologySpreadConstraint{
				MaxSkew: 1, TopologyKey: "example.com/rack", WhenUnsatisfiable: v1.DoNotSchedule,
			}), []*fixture.NodeBuilder{
				node("a", "zone-1", "64"), node("b", "zone-1", "2").Label("example.com/rack", "r1"),
			},
			"[{b [{cpu  8 2  }]}]",
		},
		"where every node is excluded, those with the fewest excluding plugins are listed": {
			inZone1(), []*fixture.NodeBuilder{
				node("a", "zone-2", "64").Taint(dedicated, "", v1.TaintEffectNoSchedule), node("b", "zone-2", "2"),
			},
			"[{b [{    NodeAffinity node(s) didn't match Pod's node affinity/selector} {cpu  8 2  }]}]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var nodes []runtime.Object
			for _, n := range c.nodes {
				nodes = append(nodes, n.Obj())
			}
			runWithInTreePlugins(t, func(env *testEnv) {
				env.create(c.pod.Obj())
				why := env.status("a")
				if why == nil {
					t.Fatal("it is not explained")
				}
				env.want("the closest nodes", fmt.Sprint(why.ClosestNodes), c.want)
			}, nodes...)
		})
	}
}
