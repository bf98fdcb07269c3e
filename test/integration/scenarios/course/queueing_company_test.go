package course

import (
	. "github.com/onsi/ginkgo/v2"
	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/test/support/fixture"
)

// near wants pods with the label key in its domain of topology, apart none.
func near(name, topology, key string) *fixture.PodBuilder {
	return pod(name).RequirePodAffinity(fixture.PodAffinityTerm(topology, key, "yes"))
}

func apart(name, topology, key string) *fixture.PodBuilder {
	return pod(name).RequirePodAntiAffinity(fixture.PodAffinityTerm(topology, key, "yes"))
}

var _ = Describe("Refused for the company of pods, a pod is tried again only when that changes for it:", func() {
	const (
		anti     = "didn't match pod anti-affinity rules"
		affinity = "didn't match pod affinity rules"
	)
	rack := func(name string) *fixture.NodeBuilder { return node(name).Label("rack", name) }
	wakings(map[string]waking{
		"when a node comes for two that keep apart": {
			nodes: nodes{rack("n")}, why: anti,
			there:   pods{apart("old", "rack", "red").Label("red", "yes").On("n")},
			refused: pods{apart("a", "rack", "red").Label("red", "yes")},
			change:  nodeComes(rack("m")),
			again:   "a",
		},
		"when a pod loses the label that it keeps away from": {
			nodes: nodes{rack("n")}, why: anti,
			there:   pods{pod("old").Label("red", "yes").Label("blue", "yes").On("n")},
			refused: pods{apart("from-red", "rack", "red").Label("red", "yes"), apart("from-blue", "rack", "blue").Label("blue", "yes")},
			change:  relabelled("old", "blue", "yes"),
			again:   "from-red",
		},
		"when the pod goes that it keeps away from": {
			nodes: nodes{rack("n")}, why: anti,
			there:   pods{pod("red").Label("red", "yes").On("n"), pod("blue").Label("blue", "yes").On("n")},
			refused: pods{apart("from-red", "rack", "red").Label("red", "yes"), apart("from-blue", "rack", "blue").Label("blue", "yes")},
			change:  podGoes("red"),
			again:   "from-red",
		},
		"when the pod goes that keeps it away": {
			nodes: nodes{rack("n")}, why: "didn't satisfy existing pods anti-affinity rules",
			there:   pods{apart("no-red", "rack", "red").On("n"), apart("no-blue", "rack", "blue").On("n")},
			refused: pods{pod("red").Label("red", "yes"), pod("blue").Label("blue", "yes")},
			change:  podGoes("no-red"),
			again:   "red",
		},
		"when a pod gets the label that it looks for": {
			nodes: nodes{rack("n")}, why: affinity,
			there:   pods{pod("old").On("n")},
			refused: pods{near("to-red", "rack", "red"), near("to-blue", "rack", "blue")},
			change:  relabelled("old", "red", "yes"),
			again:   "to-red",
		},
		"when a node comes that has its topology": {
			nodes: nodes{rack("n")}, why: affinity,
			refused: pods{near("in-row", "row", "red"), near("in-hall", "hall", "red")},
			change:  nodeComes(node("m").Label("row", "1")),
			again:   "in-row",
		},
		"when a node gets its topology, or another value of it": {
			nodes: nodes{node("n").Label("hall", "1"), node("m").Label("hall", "2").Label("group", "b")}, why: affinity,
			there: pods{pod("old").Label("red", "yes").On("n")},
			refused: pods{
				near("in-rack", "rack", "red").Label("red", "yes"), near("in-row", "row", "red").Label("red", "yes"),
				near("in-hall", "hall", "red").NodeSelector("group", "b"),
			},
			change: nodeBecomes(node("n").Label("rack", "n").Label("hall", "2")),
			// kube-scheduler lets in-row sleep: see docs/parity.md for what wakes a
			// refused pod here.
			again: "in-rack in-row in-hall",
		},
		"when a node loses the topology in which it keeps apart, or gets another value of it": {
			nodes: nodes{rack("n").Label("row", "1").Label("hall", "1")}, why: anti,
			there: pods{pod("old").Label("red", "yes").On("n")},
			refused: pods{
				apart("in-rack", "rack", "red").Label("red", "yes"), apart("in-row", "row", "red").Label("red", "yes"),
				apart("in-hall", "hall", "red").Label("red", "yes"),
			},
			change: nodeBecomes(node("n").Label("row", "2").Label("hall", "1")),
			// kube-scheduler lets in-hall sleep, as above.
			again: "in-rack in-row in-hall",
		},
		"when a node comes, with the topology in which it keeps apart or without": {
			nodes: nodes{rack("n").Label("row", "1")}, why: anti,
			there:   pods{pod("old").Label("red", "yes").On("n")},
			refused: pods{apart("in-rack", "rack", "red"), apart("in-row", "row", "red")},
			change:  nodeComes(node("m").Label("row", "1")),
			again:   "in-rack in-row",
		},
	})
})

// spread keeps the pods with the label key even over at least so many domains.
func spread(name, topology, key string, domains int32) *fixture.PodBuilder {
	constraint := fixture.HardSpreadConstraint(topology, key, "yes")
	constraint.MinDomains = &domains
	return pod(name).Label(key, "yes").Spread(constraint)
}

var _ = Describe("Refused for its spread, a pod is tried again only when that changes for it:", func() {
	const why = "didn't match pod topology spread constraints"
	rack := func(name string) *fixture.NodeBuilder { return node(name).Label("rack", "1") }
	two := pods{pod("red").Label("red", "yes").On("n"), pod("blue").Label("blue", "yes").On("n")}
	wakings(map[string]waking{
		"when a pod that it counts gets a node": {
			nodes: nodes{rack("n")}, there: two, why: why,
			refused: pods{spread("of-red", "rack", "red", 3), spread("of-blue", "rack", "blue", 3)},
			change:  placedPodComes(pod("new").Label("red", "yes").On("n")),
			again:   "of-red",
		},
		"when a pod loses the label that it counts": {
			nodes: nodes{rack("n")}, there: two, why: why,
			refused: pods{spread("of-red", "rack", "red", 3), spread("of-blue", "rack", "blue", 3)},
			change:  relabelled("red", "green", "yes"),
			again:   "of-red",
		},
		"when a pod that it counts goes": {
			nodes: nodes{rack("n")}, there: two, why: why,
			refused: pods{spread("of-red", "rack", "red", 2), spread("of-blue", "rack", "blue", 3)},
			change:  podGoes("red"),
			again:   "of-red",
		},
		"when a node with its topology comes": {
			nodes: nodes{rack("n"), node("m").Label("row", "1")}, why: why,
			there:   pods{pod("one").Label("red", "yes").On("n"), pod("other").Label("red", "yes").On("m")},
			refused: pods{spread("over-racks", "rack", "red", 2), spread("over-rows", "row", "red", 2)},
			change:  nodeComes(rack("o")),
			again:   "over-racks",
		},
		"when a node gets or loses its topology, or gets another value of it": {
			nodes: nodes{
				rack("n").Label("hall", "1").Label("floor", "1"), rack("m").Label("hall", "1").Label("floor", "1"),
			}, why: why,
			there: pods{pod("one").Label("red", "yes").On("n"), pod("other").Label("red", "yes").On("m")},
			refused: pods{
				spread("over-racks", "rack", "red", 3), spread("over-rows", "row", "red", 3), spread("over-halls", "hall", "red", 3),
				spread("over-sites", "site", "red", 3), spread("over-floors", "floor", "red", 3),
			},
			change: nodeBecomes(node("m").Label("row", "1").Label("hall", "1").Label("floor", "2")),
			again:  "over-racks over-rows over-floors",
		},
		"when a node with its topology goes": {
			nodes: nodes{rack("n"), node("m").Label("row", "1")}, why: why,
			there:   pods{pod("one").Label("red", "yes").On("n"), pod("other").Label("red", "yes").On("m")},
			refused: pods{spread("over-racks", "rack", "red", 3), spread("over-rows", "row", "red", 3)},
			change:  nodeGoes("m"),
			again:   "over-rows",
		},
		"when the taint of a node with its topology becomes another": {
			nodes: nodes{rack("n"), node("m").Label("row", "1"), tainted("o", "away").Label("row", "1")}, why: why,
			there:   pods{pod("one").Label("red", "yes").On("n"), pod("other").Label("red", "yes").On("m")},
			refused: pods{spread("over-racks", "rack", "red", 3), spread("over-rows", "row", "red", 3).Toleration(tolerates("near"))},
			change: nodeBecomes(node("o").Label("row", "1").Mutate(func(node *v1.Node) {
				node.Spec.Taints = []v1.Taint{{Key: "near", Value: "by", Effect: v1.TaintEffectNoSchedule}}
			})),
			again: "over-rows",
		},
	})
})
