package course

import (
	. "github.com/onsi/ginkgo/v2"
	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/test/support/fixture"
)

// gpu is a resource that is more than a number nowhere here.
const gpu = "example.com/gpu"

// burning wants a GPU, besides.
func burning(name string, pairs ...string) *fixture.PodBuilder {
	return pod(name).Mutate(func(pod *v1.Pod) {
		one := fixture.Resources(gpu, "1")
		all := fixture.Resources(append(pairs, gpu, "1")...)
		pod.Spec.Containers = []v1.Container{{Name: "c0", Resources: v1.ResourceRequirements{Requests: all, Limits: one}}}
	})
}

var _ = Describe("Refused for want of room, a pod is tried again only when there may be enough:", func() {
	const why = "Insufficient cpu"
	wakings(map[string]waking{
		"when it asks for less": {
			nodes: nodes{node("n").Capacity("cpu", "2")}, why: why,
			refused: pods{pod("a").Requests("cpu", "4"), pod("b").Requests("cpu", "4")},
			change:  resized("a", "cpu", "2"),
			again:   "a",
		},
		"when a pod goes": {
			nodes: nodes{node("n").Capacity("cpu", "2")}, why: why,
			there:   pods{pod("old").Requests("cpu", "2").On("n")},
			refused: pods{pod("a").Requests("cpu", "2")},
			change:  podGoes("old"),
			again:   "a",
		},
		"when a node comes that is big enough for it": {
			nodes: nodes{node("n").Capacity("cpu", "2")}, why: why,
			refused: pods{pod("four").Requests("cpu", "4"), pod("five").Requests("cpu", "5")},
			change:  nodeComes(node("m").Capacity("cpu", "4")),
			again:   "four",
		},
		"when a node becomes big enough for it": {
			nodes: nodes{node("n").Capacity("cpu", "2")}, why: why,
			refused: pods{pod("four").Requests("cpu", "4"), pod("five").Requests("cpu", "5")},
			change:  nodeBecomes(node("n").Capacity("cpu", "4")),
			again:   "four",
		},
		"not when a node grows in what it does not ask for": {
			nodes: nodes{node("n").Capacity("cpu", "4"), node("m").Capacity("cpu", "2").Label("group", "b")}, why: why,
			refused: pods{pod("a").Requests("cpu", "4").NodeSelector("group", "b")},
			change:  nodeBecomes(node("n").Capacity("cpu", "4", "memory", "4k")),
		},
		"when a node grows in what it asks for, although that one will not do for other reasons": {
			nodes: nodes{node("n").Capacity("cpu", "4"), node("m").Capacity("cpu", "2").Label("group", "b")}, why: why,
			refused: pods{pod("a").Requests("cpu", "4").NodeSelector("group", "b")},
			change:  nodeBecomes(node("n").Capacity("cpu", "5")),
			again:   "a",
		},
		"when a node takes more pods": {
			nodes: nodes{node("n").Capacity("pods", "2"), node("m").Capacity("pods", "1").Label("group", "b")}, why: "Too many pods",
			there:   pods{pod("old").On("m")},
			refused: pods{pod("a").NodeSelector("group", "b")},
			change:  nodeBecomes(node("n").Capacity("pods", "3")),
			again:   "a",
		},
		"not when a node that has the GPU, and too little else, grows elsewhere": {
			nodes: nodes{node("n").Capacity("cpu", "4", gpu, "1")}, why: why,
			refused: pods{burning("a", "cpu", "5")},
			change:  nodeBecomes(node("n").Capacity("cpu", "4", gpu, "1", "memory", "4k")),
		},
		"not when a node without the GPU grows elsewhere": {
			nodes: nodes{node("n").Capacity("cpu", "4")}, why: "Insufficient " + gpu,
			refused: pods{burning("a")},
			change:  nodeBecomes(node("n").Capacity("cpu", "4", "memory", "4k")),
		},
		"when a node gets the GPU": {
			nodes: nodes{node("n").Capacity("cpu", "4")}, why: "Insufficient " + gpu,
			refused: pods{burning("a")},
			change:  nodeBecomes(node("n").Capacity("cpu", "4", gpu, "1")),
			again:   "a",
		},
	})
})
