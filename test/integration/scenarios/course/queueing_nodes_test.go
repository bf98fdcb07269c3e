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

// taintedNode returns a node that rejects pods without a toleration of the key.
func taintedNode(name, key string) *fixture.NodeBuilder {
	return node(name).Taint(key, "", v1.TaintEffectNoSchedule)
}

// preferNoSchedule changes the effect of a node's taints.
func preferNoSchedule(node *v1.Node) {
	for i := range node.Spec.Taints {
		node.Spec.Taints[i].Effect = v1.TaintEffectPreferNoSchedule
	}
}

func toleration(key string) v1.Toleration {
	return v1.Toleration{Key: key, Operator: v1.TolerationOpExists}
}

var _ = Describe("A pod that was rejected for taints is requeued", func() {
	const why = "had untolerated taint(s)"
	requeueSpecs(map[string]requeueCase{
		"not when the node gets more resources, unlike a pod that tolerates the taint": {
			nodes:    nodes{taintedNode("n", "away").Capacity("cpu", "2")},
			refused:  pods{pod("stranger").Requests("cpu", "4"), pod("guest").Requests("cpu", "4").Toleration(toleration("away"))},
			change:   updateNode(taintedNode("n", "away").Capacity("cpu", "4")),
			requeued: "guest",
		},
		"when it gets a toleration, and not when another pod does": {
			nodes: nodes{taintedNode("n", "away")}, why: why,
			refused: pods{pod("a"), pod("b")},
			change: updatePod("a", func(pod *v1.Pod) {
				pod.Spec.Tolerations = append(pod.Spec.Tolerations, toleration("away"))
			}),
			requeued: "a",
		},
		"when a taint changes to one that it tolerates": {
			nodes: nodes{taintedNode("n", "away")}, why: why,
			refused:  pods{pod("a").Toleration(toleration("red")), pod("b").Toleration(toleration("blue")), pod("c")},
			change:   updateNode(taintedNode("n", "red")),
			requeued: "a",
		},
		"when a node is created whose taint it tolerates": {
			nodes: nodes{taintedNode("n", "away")}, why: why,
			refused:  pods{pod("a").Toleration(toleration("red")), pod("b")},
			change:   addNode(taintedNode("m", "red")),
			requeued: "a",
		},
		"not when its labels change": {
			nodes: nodes{taintedNode("n", "away")}, why: why,
			refused: pods{pod("a")},
			change:  setPodLabels("a", "key", "value"),
		},
	})
})

var _ = Describe("A pod that was rejected for its node affinity is requeued", func() {
	const why = "didn't match Pod's node affinity/selector"
	of := func(group string) *fixture.PodBuilder {
		return pod(group).RequireNodeAffinity(fixture.NodeSelectorTerm(fixture.In("group", group)))
	}
	requeueSpecs(map[string]requeueCase{
		"when a node gets a label that it matches, and not when it matches another": {
			nodes: nodes{node("n").Label("group", "a")}, why: why,
			refused:  pods{of("b"), of("c")},
			change:   updateNode(node("n").Label("group", "b")),
			requeued: "b",
		},
		"when a node is created that it matches": {
			nodes: nodes{node("n").Label("group", "a")}, why: why,
			refused:  pods{of("b"), of("c")},
			change:   addNode(node("m").Label("group", "b")),
			requeued: "b",
		},
		"not when a node that it matched before gets a label": {
			nodes: nodes{node("n").Label("group", "a").Capacity("cpu", "2"), node("m").Label("group", "b")}, why: why,
			refused: pods{of("a").Requests("cpu", "4")},
			change:  updateNode(node("n").Label("group", "a").Label("other", "x").Capacity("cpu", "2")),
		},
		"when the only node that PreFilter left gets more resources": {
			nodes: nodes{node("n").Capacity("cpu", "2"), node("m").Label("zone", "z").Capacity("cpu", "2")}, why: "Insufficient cpu",
			refused:  pods{pod("a").RequireNodeAffinity(fixture.NodeNameTerm("n")).Requests("cpu", "4")},
			change:   updateNode(node("n").Label("new", "label").Capacity("cpu", "4")),
			requeued: "a",
		},
	})
})

var _ = Describe("A pod that was rejected on cordoned nodes is requeued", func() {
	const why = "were unschedulable"
	requeueSpecs(map[string]requeueCase{
		"when one is uncordoned": {
			nodes: nodes{node("n").Unschedulable()}, why: why,
			refused:  pods{pod("a")},
			change:   updateNode(node("n")),
			requeued: "a",
		},
		"when another node is created": {
			nodes: nodes{node("n").Unschedulable()}, why: why,
			refused:  pods{pod("a")},
			change:   addNode(node("m")),
			requeued: "a",
		},
		"not when a cordoned node is created": {
			nodes: nodes{node("n").Unschedulable()}, why: why,
			refused: pods{pod("a")},
			change:  addNode(node("m").Unschedulable()),
		},
	})
})

var _ = Describe("A pod that was rejected for a host port is requeued", func() {
	const why = "didn't have free ports"
	requeueSpecs(map[string]requeueCase{
		"when the pod with the port is deleted, and not when another is": {
			nodes: nodes{node("n")}, why: why,
			existing: pods{pod("has-80").HostPort("", v1.ProtocolTCP, 80).On("n"), pod("has-81").HostPort("", v1.ProtocolTCP, 81).On("n")},
			refused:  pods{pod("wants-80").HostPort("", v1.ProtocolTCP, 80), pod("wants-81").HostPort("", v1.ProtocolTCP, 81)},
			change:   deletePod("has-80"),
			requeued: "wants-80",
		},
		"when a node is created": {
			nodes: nodes{node("n")}, why: why,
			existing: pods{pod("has-80").HostPort("", v1.ProtocolTCP, 80).On("n")},
			refused:  pods{pod("wants-80").HostPort("", v1.ProtocolTCP, 80)},
			change:   addNode(node("m")),
			requeued: "wants-80",
		},
	})
})

var _ = Describe("A pod that was rejected for a feature that no node declares is requeued", func() {
	const why = "didn't match Pod's required features"
	// restarts returns a pod that restarts all its containers when one exits with 1.
	restarts := func(name string) *fixture.PodBuilder {
		never := v1.ContainerRestartPolicyNever
		return pod(name).Mutate(func(pod *v1.Pod) {
			pod.Spec.Containers = []v1.Container{{Name: "c0", RestartPolicy: &never, RestartPolicyRules: []v1.ContainerRestartRule{{
				Action:    v1.ContainerRestartRuleActionRestartAllContainers,
				ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{1}},
			}}}}
		})
	}
	requeueSpecs(map[string]requeueCase{
		"when a node declares it": {
			nodes: nodes{node("n")}, why: why,
			refused:  pods{restarts("a")},
			change:   updateNode(node("n").DeclaredFeatures("RestartAllContainersOnContainerExits")),
			requeued: "a",
		},
		"not when something else of a node changes": {
			nodes: nodes{node("n")}, why: why,
			refused: pods{restarts("a")},
			change:  updateNode(node("n").Label("new", "label")),
		},
		"not when its labels change": {
			nodes: nodes{node("n")}, why: why,
			refused: pods{restarts("a")},
			change:  setPodLabels("a", "new", "label"),
		},
	})
})

// gpu is an extended resource.
const gpu = "example.com/gpu"

// gpuPod returns a pod that requests a GPU and other resources.
func gpuPod(name string, pairs ...string) *fixture.PodBuilder {
	return pod(name).Mutate(func(pod *v1.Pod) {
		one := fixture.Resources(gpu, "1")
		all := fixture.Resources(append(pairs, gpu, "1")...)
		pod.Spec.Containers = []v1.Container{{Name: "c0", Resources: v1.ResourceRequirements{Requests: all, Limits: one}}}
	})
}

var _ = Describe("A pod that was rejected for resources is requeued", func() {
	const why = "Insufficient cpu"
	requeueSpecs(map[string]requeueCase{
		"when its requests are reduced": {
			nodes: nodes{node("n").Capacity("cpu", "2")}, why: why,
			refused:  pods{pod("a").Requests("cpu", "4"), pod("b").Requests("cpu", "4")},
			change:   resizePod("a", "cpu", "2"),
			requeued: "a",
		},
		"when a pod is deleted": {
			nodes: nodes{node("n").Capacity("cpu", "2")}, why: why,
			existing: pods{pod("old").Requests("cpu", "2").On("n")},
			refused:  pods{pod("a").Requests("cpu", "2")},
			change:   deletePod("old"),
			requeued: "a",
		},
		"when a node is created that is large enough": {
			nodes: nodes{node("n").Capacity("cpu", "2")}, why: why,
			refused:  pods{pod("four").Requests("cpu", "4"), pod("five").Requests("cpu", "5")},
			change:   addNode(node("m").Capacity("cpu", "4")),
			requeued: "four",
		},
		"when a node becomes large enough": {
			nodes: nodes{node("n").Capacity("cpu", "2")}, why: why,
			refused:  pods{pod("four").Requests("cpu", "4"), pod("five").Requests("cpu", "5")},
			change:   updateNode(node("n").Capacity("cpu", "4")),
			requeued: "four",
		},
		"not when a node gets more of a resource that it does not request": {
			nodes: nodes{node("n").Capacity("cpu", "4"), node("m").Capacity("cpu", "2").Label("group", "b")}, why: why,
			refused: pods{pod("a").Requests("cpu", "4").NodeSelector("group", "b")},
			change:  updateNode(node("n").Capacity("cpu", "4", "memory", "4k")),
		},
		"when a node gets more of a resource that it requests, although it does not match the node": {
			nodes: nodes{node("n").Capacity("cpu", "4"), node("m").Capacity("cpu", "2").Label("group", "b")}, why: why,
			refused:  pods{pod("a").Requests("cpu", "4").NodeSelector("group", "b")},
			change:   updateNode(node("n").Capacity("cpu", "5")),
			requeued: "a",
		},
		"when a node takes more pods": {
			nodes: nodes{node("n").Capacity("pods", "2"), node("m").Capacity("pods", "1").Label("group", "b")}, why: "Too many pods",
			existing: pods{pod("old").On("m")},
			refused:  pods{pod("a").NodeSelector("group", "b")},
			change:   updateNode(node("n").Capacity("pods", "3")),
			requeued: "a",
		},
		"not when a node with the GPU and too little CPU gets more memory": {
			nodes: nodes{node("n").Capacity("cpu", "4", gpu, "1")}, why: why,
			refused: pods{gpuPod("a", "cpu", "5")},
			change:  updateNode(node("n").Capacity("cpu", "4", gpu, "1", "memory", "4k")),
		},
		"not when a node without the GPU gets more memory": {
			nodes: nodes{node("n").Capacity("cpu", "4")}, why: "Insufficient " + gpu,
			refused: pods{gpuPod("a")},
			change:  updateNode(node("n").Capacity("cpu", "4", "memory", "4k")),
		},
		"when a node gets the GPU": {
			nodes: nodes{node("n").Capacity("cpu", "4")}, why: "Insufficient " + gpu,
			refused:  pods{gpuPod("a")},
			change:   updateNode(node("n").Capacity("cpu", "4", gpu, "1")),
			requeued: "a",
		},
	})
})
