package placement

import (
	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/test/support/fixture"
)

// bears is a pod with one toleration of an exact taint a pair of arguments.
func bears(pairs ...string) *fixture.PodBuilder {
	pod := fixture.Pod("new")
	for i := 0; i < len(pairs); i += 2 {
		pod.Tolerate(pairs[i], pairs[i+1], v1.TaintEffectNoSchedule)
	}
	return pod
}

// marked is a node with one taint a pair of arguments.
func marked(pairs ...string) *fixture.NodeBuilder {
	node := fixture.Node("a")
	for i := 0; i < len(pairs); i += 2 {
		node.Taint(pairs[i], pairs[i+1], v1.TaintEffectNoSchedule)
	}
	return node
}

var _ = table("A pod and the taints of a node:",
	entry("it bears the taint", scenario{
		nodes: nodes(marked("team", "red")), pod: bears("team", "red"), want: on("a"),
	}),
	entry("it does not bear the taint", scenario{
		nodes: nodes(marked("team", "red")), pod: bears(), want: refused("1 " + tainted),
	}),
	entry("it bears another value of the taint", scenario{
		nodes: nodes(marked("team", "red")), pod: bears("team", "blue"), want: refused("1 " + tainted),
	}),
	entry("it bears one of two taints", scenario{
		nodes: nodes(marked("team", "red", "disk", "slow")), pod: bears("team", "red"), want: refused("1 " + tainted),
	}),
	entry("it bears both taints", scenario{
		nodes: nodes(marked("team", "red", "disk", "slow")), pod: bears("team", "red", "disk", "slow"), want: on("a"),
	}),
	entry("it bears more than there is", scenario{
		nodes: nodes(marked("team", "red")), pod: bears("team", "red", "disk", "slow"), want: on("a"),
	}),
	entry("it bears a taint that is not there", scenario{
		nodes: nodes(marked()), pod: bears("team", "red"), want: on("a"),
	}),
	entry("a taint that is a mere preference keeps nobody off", scenario{
		nodes: nodes(fixture.Node("a").Taint("team", "red", v1.TaintEffectPreferNoSchedule)), pod: bears(), want: on("a"),
	}),
	entry("a taint that evicts keeps it off as well", scenario{
		nodes: nodes(fixture.Node("a").Taint("team", "red", v1.TaintEffectNoExecute)), pod: bears(), want: refused("1 " + tainted),
	}),
)

// compares is a pod that bears any value of a taint that stands so to value.
func compares(key string, operator v1.TolerationOperator, value string, effect v1.TaintEffect) *fixture.PodBuilder {
	return fixture.Pod("new").Toleration(v1.Toleration{Key: key, Operator: operator, Value: value, Effect: effect})
}

const (
	above = v1.TolerationOpGt
	below = v1.TolerationOpLt
)

// The gate TaintTolerationComparisonOperators is alpha, and off in
// kube-scheduler unless somebody turns it on: these operators cover nothing,
// although this API server lets them pass.
var _ = table("A toleration by comparison covers nothing:",
	entry("above, of a value that is above", scenario{
		nodes: nodes(marked("level", "999")), pod: compares("level", above, "900", v1.TaintEffectNoSchedule), want: refused("1 " + tainted),
	}),
	entry("above, of a value that is below", scenario{
		nodes: nodes(marked("level", "850")), pod: compares("level", above, "900", v1.TaintEffectNoSchedule), want: refused("1 " + tainted),
	}),
	entry("below, of a value that is below", scenario{
		nodes: nodes(marked("errors", "5")), pod: compares("errors", below, "10", v1.TaintEffectNoSchedule), want: refused("1 " + tainted),
	}),
	entry("below, of a value that is above", scenario{
		nodes: nodes(marked("errors", "15")), pod: compares("errors", below, "10", v1.TaintEffectNoSchedule), want: refused("1 " + tainted),
	}),
	entry("beside one that covers the other taint", scenario{
		nodes: nodes(marked("level", "950", "disk", "slow")),
		pod:   bears("disk", "slow").Toleration(v1.Toleration{Key: "level", Operator: above, Value: "900", Effect: v1.TaintEffectNoSchedule}),
		want:  refused("1 " + tainted),
	}),
	entry("beside one that covers the same taint, which does", scenario{
		nodes: nodes(marked("level", "950")),
		pod:   bears("level", "950").Toleration(v1.Toleration{Key: "level", Operator: below, Value: "900", Effect: v1.TaintEffectNoSchedule}),
		want:  on("a"),
	}),
	entry("above, of a value below nothing", scenario{
		nodes: nodes(marked("celsius", "10")), pod: compares("celsius", above, "-20", v1.TaintEffectNoSchedule), want: refused("1 " + tainted),
	}),
	entry("below, of nothing", scenario{
		nodes: nodes(marked("delay", "0")), pod: compares("delay", below, "5", v1.TaintEffectNoSchedule), want: refused("1 " + tainted),
	}),
	entry("below, of large numbers", scenario{
		nodes: nodes(marked("bytes", "999999999")), pod: compares("bytes", below, "1000000000", v1.TaintEffectNoSchedule), want: refused("1 " + tainted),
	}),
	entry("of any effect, where the taint is a mere preference and keeps nobody off", scenario{
		nodes: nodes(fixture.Node("a").Taint("level", "999", v1.TaintEffectPreferNoSchedule)),
		pod:   compares("level", above, "900", ""), want: on("a"),
	}),
	entry("before and after the value of the taint changes, which wakes the pod", scenario{
		nodes: nodes(marked("level", "850")), pod: compares("level", above, "900", v1.TaintEffectNoSchedule), want: refused("1 " + tainted),
		then: []step{
			changes("a", func(n *v1.Node) { n.Spec.Taints[0].Value = "950" }),
			joins(fixture.Pod("exact").Tolerate("level", "950", v1.TaintEffectNoSchedule), on("a")),
			gets("new", refused("1 "+tainted)),
		},
	}),
)
