package simulation

import (
	"math/rand/v2"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/test/support/fixture"
)

var tiers = []string{"", "gold", "tin"}

func newNode(name string, version int, dice *rand.Rand) *v1.Node {
	node := fixture.Node(name).Capacity("cpu", itoa(2+dice.IntN(7)), "pods", itoa(2+dice.IntN(5))).
		Zone([]string{"x", "y"}[dice.IntN(2)]).
		Mutate(func(n *v1.Node) { n.UID += types.UID("-" + itoa(version)) })
	if tier := tiers[dice.IntN(len(tiers))]; tier != "" {
		node.Label(tierLabel, tier)
	}
	if dice.IntN(2) == 0 {
		node.Label("disk", "ssd")
	}
	return node.Obj()
}

func addNode(w *world, dice *rand.Rand) bool {
	name := "n" + itoa(dice.IntN(w.swarm.nodes+2))
	if _, taken := w.server.nodes[name]; taken {
		return false
	}
	w.putNode(newNode(name, w.server.version, dice))
	return true
}

func (w *world) putNode(node *v1.Node) {
	w.server.putNode(node)
	w.tellNode(node.Name)
}

// tellNode says what a node is like now.
func (w *world) tellNode(name string) {
	node := w.server.nodes[name]
	w.say("outside: node %s (version %s) offers %s cpu and %s pods, labels %v, taints %d, cordoned %v", name, node.ResourceVersion,
		node.Status.Allocatable.Cpu(), node.Status.Allocatable.Pods(), node.Labels, len(node.Spec.Taints), node.Spec.Unschedulable)
}

func withNode(w *world, dice *rand.Rand, do func(name string)) bool {
	node, ok := someone(dice, w.server.sortedNodes(), func(*v1.Node) bool { return true })
	if ok {
		do(node.Name)
	}
	return ok
}

func editNode(w *world, dice *rand.Rand, change func(*v1.Node)) bool {
	return withNode(w, dice, func(name string) {
		w.server.editNode(name, change)
		w.tellNode(name)
	})
}

func removeNode(w *world, dice *rand.Rand) bool {
	return withNode(w, dice, func(name string) {
		w.say("outside: node %s is gone", name)
		w.server.dropNode(name)
	})
}

// replaceNode deletes a node and adds another of the same name at once.
func replaceNode(w *world, dice *rand.Rand) bool {
	return withNode(w, dice, func(name string) {
		w.say("outside: node %s is gone", name)
		w.server.dropNode(name)
		w.putNode(newNode(name, w.server.version, dice))
	})
}

func resizeNode(w *world, dice *rand.Rand) bool {
	return editNode(w, dice, func(n *v1.Node) {
		n.Status.Allocatable = fixture.Resources("cpu", itoa(1+dice.IntN(9)), "pods", itoa(1+dice.IntN(6)))
	})
}

func taintNode(w *world, dice *rand.Rand) bool {
	return editNode(w, dice, func(n *v1.Node) {
		if len(n.Spec.Taints) > 0 {
			n.Spec.Taints = nil
			return
		}
		n.Spec.Taints = []v1.Taint{{Key: "wet", Effect: v1.TaintEffectNoSchedule}}
	})
}

func cordonNode(w *world, dice *rand.Rand) bool {
	return editNode(w, dice, func(n *v1.Node) { n.Spec.Unschedulable = !n.Spec.Unschedulable })
}

func relabelNode(w *world, dice *rand.Rand) bool {
	return editNode(w, dice, func(n *v1.Node) {
		if tier := tiers[dice.IntN(len(tiers))]; tier != "" {
			n.Labels[tierLabel] = tier
		} else {
			delete(n.Labels, tierLabel)
		}
	})
}

func heartbeat(w *world, dice *rand.Rand) bool {
	return editNode(w, dice, func(n *v1.Node) { n.Status.NodeInfo.KubeletVersion = itoa(w.server.version) })
}
