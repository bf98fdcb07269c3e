package course

import (
	. "github.com/onsi/ginkgo/v2"
	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/test/support/fixture"
)

type (
	nodes = []*fixture.NodeBuilder
	pods  = []*fixture.PodBuilder
)

func node(name string) *fixture.NodeBuilder { return fixture.Node(name) }

// tainted is a node that keeps pods off which do not tolerate key.
func tainted(name, key string) *fixture.NodeBuilder {
	return node(name).Taint(key, "", v1.TaintEffectNoSchedule)
}

// ratherNot turns a node's taints into wishes.
func ratherNot(node *v1.Node) {
	for i := range node.Spec.Taints {
		node.Spec.Taints[i].Effect = v1.TaintEffectPreferNoSchedule
	}
}

func tolerates(key string) v1.Toleration {
	return v1.Toleration{Key: key, Operator: v1.TolerationOpExists}
}

var _ = Describe("Refused for taints, a pod is tried again only when they can let it in:", func() {
	const why = "had untolerated taint(s)"
	wakings(map[string]waking{
		"not when the node grows, which helps who tolerates them and lacks room": {
			nodes:   nodes{tainted("n", "away").Capacity("cpu", "2")},
			refused: pods{pod("stranger").Requests("cpu", "4"), pod("guest").Requests("cpu", "4").Toleration(tolerates("away"))},
			change:  nodeBecomes(tainted("n", "away").Capacity("cpu", "4")),
			again:   "guest",
		},
		"when its toleration is added, and not another's": {
			nodes: nodes{tainted("n", "away")}, why: why,
			refused: pods{pod("a"), pod("b")},
			change: podBecomes("a", func(pod *v1.Pod) {
				pod.Spec.Tolerations = append(pod.Spec.Tolerations, tolerates("away"))
			}),
			again: "a",
		},
		"when the taint becomes one that it tolerates": {
			nodes: nodes{tainted("n", "away")}, why: why,
			refused: pods{pod("a").Toleration(tolerates("red")), pod("b").Toleration(tolerates("blue")), pod("c")},
			change:  nodeBecomes(tainted("n", "red")),
			again:   "a",
		},
		"when a node comes whose taint it tolerates": {
			nodes: nodes{tainted("n", "away")}, why: why,
			refused: pods{pod("a").Toleration(tolerates("red")), pod("b")},
			change:  nodeComes(tainted("m", "red")),
			again:   "a",
		},
		"not when its own labels change": {
			nodes: nodes{tainted("n", "away")}, why: why,
			refused: pods{pod("a")},
			change:  relabelled("a", "key", "value"),
		},
	})
})

var _ = Describe("Refused for its node affinity, a pod is tried again only when a node comes to match it:", func() {
	const why = "didn't match Pod's node affinity/selector"
	of := func(group string) *fixture.PodBuilder {
		return pod(group).RequireNodeAffinity(fixture.NodeSelectorTerm(fixture.In("group", group)))
	}
	wakings(map[string]waking{
		"by a new label, which another does not want": {
			nodes: nodes{node("n").Label("group", "a")}, why: why,
			refused: pods{of("b"), of("c")},
			change:  nodeBecomes(node("n").Label("group", "b")),
			again:   "b",
		},
		"as a new one": {
			nodes: nodes{node("n").Label("group", "a")}, why: why,
			refused: pods{of("b"), of("c")},
			change:  nodeComes(node("m").Label("group", "b")),
			again:   "b",
		},
		"not when a node gets a label that matched all the time": {
			nodes: nodes{node("n").Label("group", "a").Capacity("cpu", "2"), node("m").Label("group", "b")}, why: why,
			refused: pods{of("a").Requests("cpu", "4")},
			change:  nodeBecomes(node("n").Label("group", "a").Label("other", "x").Capacity("cpu", "2")),
		},
		"or, where it narrowed the nodes down to one by name, when that has room": {
			nodes: nodes{node("n").Capacity("cpu", "2"), node("m").Label("zone", "z").Capacity("cpu", "2")}, why: "Insufficient cpu",
			refused: pods{pod("a").RequireNodeAffinity(fixture.NodeNameTerm("n")).Requests("cpu", "4")},
			change:  nodeBecomes(node("n").Label("new", "label").Capacity("cpu", "4")),
			again:   "a",
		},
	})
})

var _ = Describe("Refused on cordoned nodes, a pod is tried again", func() {
	const why = "were unschedulable"
	wakings(map[string]waking{
		"when one is uncordoned": {
			nodes: nodes{node("n").Unschedulable()}, why: why,
			refused: pods{pod("a")},
			change:  nodeBecomes(node("n")),
			again:   "a",
		},
		"when another node comes": {
			nodes: nodes{node("n").Unschedulable()}, why: why,
			refused: pods{pod("a")},
			change:  nodeComes(node("m")),
			again:   "a",
		},
		"not when one comes that is cordoned, too": {
			nodes: nodes{node("n").Unschedulable()}, why: why,
			refused: pods{pod("a")},
			change:  nodeComes(node("m").Unschedulable()),
		},
	})
})

var _ = Describe("Refused for a port, a pod is tried again", func() {
	const why = "didn't have free ports"
	wakings(map[string]waking{
		"when who has it goes, and not when another does": {
			nodes: nodes{node("n")}, why: why,
			there:   pods{pod("has-80").HostPort("", v1.ProtocolTCP, 80).On("n"), pod("has-81").HostPort("", v1.ProtocolTCP, 81).On("n")},
			refused: pods{pod("wants-80").HostPort("", v1.ProtocolTCP, 80), pod("wants-81").HostPort("", v1.ProtocolTCP, 81)},
			change:  podGoes("has-80"),
			again:   "wants-80",
		},
		"when a node comes": {
			nodes: nodes{node("n")}, why: why,
			there:   pods{pod("has-80").HostPort("", v1.ProtocolTCP, 80).On("n")},
			refused: pods{pod("wants-80").HostPort("", v1.ProtocolTCP, 80)},
			change:  nodeComes(node("m")),
			again:   "wants-80",
		},
	})
})

var _ = Describe("Refused for a feature that no node declares, a pod is tried again", func() {
	const why = "didn't match Pod's required features"
	// restarts asks that all containers be restarted when one ends with 1.
	restarts := func(name string) *fixture.PodBuilder {
		never := v1.ContainerRestartPolicyNever
		return pod(name).Mutate(func(pod *v1.Pod) {
			pod.Spec.Containers = []v1.Container{{Name: "c0", RestartPolicy: &never, RestartPolicyRules: []v1.ContainerRestartRule{{
				Action:    v1.ContainerRestartRuleActionRestartAllContainers,
				ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{1}},
			}}}}
		})
	}
	wakings(map[string]waking{
		"when a node declares it": {
			nodes: nodes{node("n")}, why: why,
			refused: pods{restarts("a")},
			change:  nodeBecomes(node("n").DeclaredFeatures("RestartAllContainersOnContainerExits")),
			again:   "a",
		},
		"not when a node changes something else": {
			nodes: nodes{node("n")}, why: why,
			refused: pods{restarts("a")},
			change:  nodeBecomes(node("n").Label("new", "label")),
		},
		"not when its own labels change": {
			nodes: nodes{node("n")}, why: why,
			refused: pods{restarts("a")},
			change:  relabelled("a", "new", "label"),
		},
	})
})
