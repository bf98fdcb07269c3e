package placement

import (
	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/test/support/fixture"
)

// north is a node of the area that the pods of this file want to be in.
func north() *fixture.NodeBuilder { return fixture.Node("a").Label(area, "north") }

func uncordoned(n *v1.Node) { n.Spec.Unschedulable = false }

func untainted(n *v1.Node) { n.Spec.Taints = nil }

// Nobody but the event can wake these pods: the profile does not flush.
var _ = table("A pod that fits nowhere is bound when",
	entry("a node comes", scenario{
		nodes: nodes(fixture.Node("a").Unschedulable()), pod: fixture.Pod("new"), want: refused("1 " + cordoned),
		then: []step{comes(fixture.Node("b")), gets("new", on("b"))},
	}),
	entry("the taint of a node goes", scenario{
		nodes: nodes(marked("team", "red")), pod: fixture.Pod("new"), want: refused("1 " + tainted),
		then: []step{changes("a", untainted), gets("new", on("a"))},
	}),
	entry("the taint of a node goes and a label comes in one write", scenario{
		nodes: nodes(marked("team", "red")), pod: fixture.Pod("new"), want: refused("1 " + tainted),
		then: []step{
			changes("a", func(n *v1.Node) { untainted(n); n.Labels["disk"] = "ssd" }),
			gets("new", on("a")),
		},
	}),
	entry("another pod is deleted", scenario{
		nodes: nodes(fixture.Node("a").Capacity("pods", "1")), there: pods(fixture.Pod("old").On("a")),
		pod: fixture.Pod("new"), want: refused("1 Too many pods"),
		then: []step{leaves("old"), gets("new", on("a"))},
	}),
	entry("the pod comes that it must be near", scenario{
		nodes: nodes(north()), pod: fixture.Pod("new").RequirePodAffinity(by(area, in("app", "db"))), want: refused("1 " + notNear),
		then: []step{joins(fixture.Pod("db").Label("app", "db"), on("a")), gets("new", on("a"))},
	}),
	entry("a pod that is there gets the label of who it must be near", scenario{
		nodes: nodes(north()), there: pods(fixture.Pod("old").On("a")),
		pod: fixture.Pod("new").RequirePodAffinity(by(area, in("app", "db"))), want: refused("1 " + notNear),
		then: []step{relabels("old", "app", "db"), gets("new", on("a"))},
	}),
	entry("a node is cordoned no more", scenario{
		nodes: nodes(fixture.Node("a").Unschedulable()), pod: fixture.Pod("new"), want: refused("1 " + cordoned),
		then: []step{changes("a", uncordoned), gets("new", on("a"))},
	}),
	entry("a node that came with a taint loses it, and not before", scenario{
		pod: nil,
		then: []step{
			comes(fixture.Node("a").Capacity("cpu", "100m")),
			joins(fixture.Pod("first").Requests("cpu", "80m"), on("a")),
			joins(fixture.Pod("second").Requests("cpu", "40m"), refused("1 Insufficient cpu")),
			comes(fixture.Node("b").Capacity("cpu", "100m").Label("disk", "ssd").Taint("team", "red", v1.TaintEffectNoSchedule)),
			joins(fixture.Pod("plug").Requests("cpu", "40m").NodeSelector("disk", "ssd").Tolerate("team", "red", v1.TaintEffectNoSchedule), on("b")),
			gets("second", refused("1 Insufficient cpu, 1 "+tainted)),
			changes("b", untainted),
			gets("second", on("b")),
		},
	}),
	entry("a node offers more, and not when it says anything else", scenario{
		nodes: nodes(fixture.Node("a").Capacity("cpu", "1")), pod: fixture.Pod("new").Requests("cpu", "2"), want: refused("1 Insufficient cpu"),
		then: []step{
			reports("a", func(n *v1.Node) {
				n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "Beats"}}
			}),
			changes("a", func(n *v1.Node) { n.Labels["disk"] = "ssd" }),
			joins(fixture.Pod("later").NodeSelector("disk", "ssd"), on("a")), // both writes are known
			reports("a", func(n *v1.Node) { n.Status.Allocatable = fixture.Resources("pods", "110", "cpu", "2") }),
			gets("new", on("a")),
			tried("new", 2),
		},
	}),
)
