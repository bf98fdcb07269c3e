package placement

import (
	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/test/support/fixture"
)

// three is a node of three CPUs and three gigabytes.
func three() []*fixture.NodeBuilder {
	return nodes(fixture.Node("a").Capacity("cpu", "3", "memory", "3G"))
}

func asks(name, cpu, memory string) *fixture.PodBuilder {
	return fixture.Pod(name).Requests("cpu", cpu, "memory", memory)
}

var _ = table("A pod and the room of a node:",
	entry("there is less left than it asks for", scenario{
		nodes: three(), there: pods(asks("old", "2", "2G").On("a")),
		pod: asks("new", "2", "2G"), want: refused("1 Insufficient cpu, 1 Insufficient memory"),
	}),
	entry("there is enough left", scenario{
		nodes: three(), there: pods(asks("old", "1", "1G").On("a")),
		pod: asks("new", "1", "1G"), want: on("a"),
	}),
	entry("there is no room for one pod more", scenario{
		nodes: nodes(fixture.Node("a").Capacity("pods", "1")), there: pods(fixture.Pod("old").On("a")),
		pod: fixture.Pod("new"), want: refused("1 Too many pods"),
	}),
	entry("pods that other schedulers placed take room", scenario{
		nodes: nodes(fixture.Node("a").Capacity("cpu", "500m", "memory", "500")),
		there: pods(asks("one", "200m", "200").On("a").SchedulerName("theirs"), asks("two", "200m", "200").On("a").SchedulerName("others")),
		pod:   asks("new", "200m", "200"), want: refused("1 Insufficient cpu, 1 Insufficient memory"),
	}),
	// The API server fills in what a node's status does not say.
	entry("what a node may give counts, which is all that it has until it says less", scenario{
		nodes: nodes(fixture.Node("a").Mutate(func(n *v1.Node) {
			n.Status.Capacity, n.Status.Allocatable = fixture.Resources("pods", "32", "cpu", "30m", "memory", "30"), nil
		})),
		pod: asks("first", "20m", "20"), want: on("a"),
		then: []step{
			reports("a", func(n *v1.Node) { n.Status.Allocatable = fixture.Resources("pods", "32", "cpu", "10m", "memory", "10") }),
			comes(closedOff()), // what was reported before is known when this one is
			leaves("first"),
			joins(asks("second", "20m", "20"), refused("1 Insufficient cpu, 1 Insufficient memory, 1 "+tainted)),
		},
	}),
)

var (
	fast = func() *fixture.NodeBuilder { return fixture.Node("fast").Label("disk", "ssd") }
	slow = func() *fixture.NodeBuilder { return fixture.Node("slow").Label("disk", "hdd") }
	bare = func() *fixture.NodeBuilder { return fixture.Node("bare") }
)

// hasNo is the requirement that a label is not there.
func hasNo(key string) v1.NodeSelectorRequirement {
	return v1.NodeSelectorRequirement{Key: key, Operator: v1.NodeSelectorOpDoesNotExist}
}

func needs(requirements ...v1.NodeSelectorRequirement) *fixture.PodBuilder {
	return fixture.Pod("new").RequireNodeAffinity(fixture.NodeSelectorTerm(requirements...))
}

var _ = table("A pod that selects nodes",
	entry("goes to the one that has the value", scenario{
		nodes: nodes(fast(), slow()), pod: needs(fixture.In("disk", "ssd")), want: on("fast"),
	}),
	entry("fits nowhere when none has the value", scenario{
		nodes: nodes(fast()), pod: needs(fixture.In("disk", "hdd")), want: refused("1 " + notSelected),
	}),
	entry("fits nowhere when all have the value that it does not want", scenario{
		nodes: nodes(slow(), fixture.Node("slow2").Label("disk", "hdd")), pod: needs(fixture.NotIn("disk", "hdd")), want: refused("2 " + notSelected),
	}),
	entry("goes to the one that has the label", scenario{
		nodes: nodes(fast(), bare()), pod: needs(fixture.Exists("disk")), want: on("fast"),
	}),
	entry("fits nowhere when all have the label that it does not want", scenario{
		nodes: nodes(fast(), slow()), pod: needs(hasNo("disk")), want: refused("2 " + notSelected),
	}),
	entry("goes to the one whose label and name it wants", scenario{
		nodes: nodes(fast(), bare()),
		pod: fixture.Pod("new").RequireNodeAffinity(v1.NodeSelectorTerm{
			MatchExpressions: fixture.NodeSelectorTerm(fixture.In("disk", "ssd")).MatchExpressions,
			MatchFields:      fixture.NodeNameTerm("fast").MatchFields,
		}),
		want: on("fast"),
	}),
	entry("fits nowhere when it wants one by name that is not there", scenario{
		nodes: nodes(fast()), pod: fixture.Pod("new").RequireNodeAffinity(fixture.NodeNameTerm("gone")),
		want: refused("1 node(s) didn't satisfy plugin(s) [NodeAffinity]"),
	}),
)

// restartsAll is what a node must be able to do for a pod of restarter.
const restartsAll = "RestartAllContainersOnContainerExits"

// restarter is a pod that starts all over when its container exits with 42.
func restarter() *fixture.PodBuilder {
	return fixture.Pod("new").Mutate(func(pod *v1.Pod) {
		pod.Spec.Containers = []v1.Container{{
			Name: "c0", RestartPolicy: new(v1.ContainerRestartPolicyNever),
			RestartPolicyRules: []v1.ContainerRestartRule{{
				Action:    v1.ContainerRestartRuleActionRestartAllContainers,
				ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
			}},
		}}
	})
}

var _ = table("A pod and the features that a node declares:",
	entry("it needs none, and there are none", scenario{
		nodes: nodes(fixture.Node("a")), pod: fixture.Pod("new"), want: on("a"),
	}),
	entry("it needs none, and there is one", scenario{
		nodes: nodes(fixture.Node("a").DeclaredFeatures(restartsAll)), pod: fixture.Pod("new"), want: on("a"),
	}),
	entry("it needs the one that one of two nodes has", scenario{
		nodes: nodes(fixture.Node("a").DeclaredFeatures(restartsAll), fixture.Node("b").DeclaredFeatures("Other")), pod: restarter(), want: on("a"),
	}),
	entry("it needs one where there is another", scenario{
		nodes: nodes(fixture.Node("a").DeclaredFeatures("Other")), pod: restarter(), want: refused("1 " + featureless),
		then: []step{
			reports("a", func(n *v1.Node) { n.Status.DeclaredFeatures = []string{"Other", restartsAll} }),
			gets("new", on("a")),
		},
	}),
	entry("it needs one of several", scenario{
		nodes: nodes(fixture.Node("a").DeclaredFeatures("Other", restartsAll), fixture.Node("b")), pod: restarter(), want: on("a"),
	}),
)
