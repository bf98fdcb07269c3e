package placement

import (
	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/test/support/fixture"
)

// northNode returns a node of the region that the pods of this file require.
func northNode() *fixture.NodeBuilder { return fixture.Node("a").Label(region, "north") }

func uncordon(n *v1.Node) { n.Spec.Unschedulable = false }

func removeTaints(n *v1.Node) { n.Spec.Taints = nil }

// Only the event can requeue these pods: the profile does not flush.
var _ = table("A pod that fits on no node is bound when",
	entry("a node is created", scenario{
		nodes: nodes(fixture.Node("a").Unschedulable()), pod: fixture.Pod("new"), want: unschedulable("1 " + unschedulableNode),
		steps: []step{addNode(fixture.Node("b")), expectPod("new", boundTo("b"))},
	}),
	entry("a node loses a taint", scenario{
		nodes: nodes(taintedNode("team", "red")), pod: fixture.Pod("new"), want: unschedulable("1 " + untoleratedTaint),
		steps: []step{updateNode("a", removeTaints), expectPod("new", boundTo("a"))},
	}),
	entry("a node loses a taint and gets a label in one write", scenario{
		nodes: nodes(taintedNode("team", "red")), pod: fixture.Pod("new"), want: unschedulable("1 " + untoleratedTaint),
		steps: []step{
			updateNode("a", func(n *v1.Node) { removeTaints(n); n.Labels["disk"] = "ssd" }),
			expectPod("new", boundTo("a")),
		},
	}),
	entry("another pod is deleted", scenario{
		nodes: nodes(fixture.Node("a").Capacity("pods", "1")), existing: pods(fixture.Pod("old").On("a")),
		pod: fixture.Pod("new"), want: unschedulable("1 Too many pods"),
		steps: []step{deletePod("old"), expectPod("new", boundTo("a"))},
	}),
	entry("a pod that its affinity matches is created", scenario{
		nodes: nodes(northNode()), pod: fixture.Pod("new").RequirePodAffinity(affinityTerm(region, in("app", "db"))), want: unschedulable("1 " + affinityMismatch),
		steps: []step{addPod(fixture.Pod("db").Label("app", "db"), boundTo("a")), expectPod("new", boundTo("a"))},
	}),
	entry("an existing pod gets the label that its affinity matches", scenario{
		nodes: nodes(northNode()), existing: pods(fixture.Pod("old").On("a")),
		pod: fixture.Pod("new").RequirePodAffinity(affinityTerm(region, in("app", "db"))), want: unschedulable("1 " + affinityMismatch),
		steps: []step{relabelPod("old", "app", "db"), expectPod("new", boundTo("a"))},
	}),
	entry("a node is uncordoned", scenario{
		nodes: nodes(fixture.Node("a").Unschedulable()), pod: fixture.Pod("new"), want: unschedulable("1 " + unschedulableNode),
		steps: []step{updateNode("a", uncordon), expectPod("new", boundTo("a"))},
	}),
	entry("a node that was created with a taint loses it, and not before", scenario{
		pod: nil,
		steps: []step{
			addNode(fixture.Node("a").Capacity("cpu", "100m")),
			addPod(fixture.Pod("first").Requests("cpu", "80m"), boundTo("a")),
			addPod(fixture.Pod("second").Requests("cpu", "40m"), unschedulable("1 Insufficient cpu")),
			addNode(fixture.Node("b").Capacity("cpu", "100m").Label("disk", "ssd").Taint("team", "red", v1.TaintEffectNoSchedule)),
			addPod(fixture.Pod("plug").Requests("cpu", "40m").NodeSelector("disk", "ssd").Tolerate("team", "red", v1.TaintEffectNoSchedule), boundTo("b")),
			expectPod("second", unschedulable("1 Insufficient cpu, 1 "+untoleratedTaint)),
			updateNode("b", removeTaints),
			expectPod("second", boundTo("b")),
		},
	}),
	entry("a node has more resources, and not when something else of it changes", scenario{
		nodes: nodes(fixture.Node("a").Capacity("cpu", "1")), pod: fixture.Pod("new").Requests("cpu", "2"), want: unschedulable("1 Insufficient cpu"),
		steps: []step{
			updateNodeStatus("a", func(n *v1.Node) {
				n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "Beats"}}
			}),
			updateNode("a", func(n *v1.Node) { n.Labels["disk"] = "ssd" }),
			addPod(fixture.Pod("later").NodeSelector("disk", "ssd"), boundTo("a")), // both writes are known
			updateNodeStatus("a", func(n *v1.Node) { n.Status.Allocatable = fixture.Resources("pods", "110", "cpu", "2") }),
			expectPod("new", boundTo("a")),
			expectAttempts("new", 2),
		},
	}),
)
