package placement

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	. "github.com/onsi/ginkgo/v2"

	"github.com/berthdev/berth/test/support/fixture"
)

// zonedNodes are a and b in zone z1, c and d in zone z2. The edits change them in order;
// nil changes nothing.
func zonedNodes(edits ...func(*fixture.NodeBuilder)) []*fixture.NodeBuilder {
	all := nodes(fixture.Node("a").Zone("z1"), fixture.Node("b").Zone("z1"), fixture.Node("c").Zone("z2"), fixture.Node("d").Zone("z2"))
	for i, edit := range edits {
		if edit != nil {
			edit(all[i])
		}
	}
	return all
}

func labelSSD(node *fixture.NodeBuilder) { node.Label("disk", "ssd") }

func taintRed(node *fixture.NodeBuilder) { node.Taint("team", "red", v1.TaintEffectNoSchedule) }

func taintedSSD(node *fixture.NodeBuilder) { labelSSD(node); taintRed(node) }

// spreadConstraint spreads pods with app=web over the domains of the topology.
func spreadConstraint(topology string, edits ...func(*v1.TopologySpreadConstraint)) v1.TopologySpreadConstraint {
	c := fixture.HardSpreadConstraint(topology, "app", "web")
	for _, edit := range edits {
		edit(&c)
	}
	return c
}

func skew(n int32) func(*v1.TopologySpreadConstraint) {
	return func(c *v1.TopologySpreadConstraint) { c.MaxSkew = n }
}

func minDomains(domains int32) func(*v1.TopologySpreadConstraint) {
	return func(c *v1.TopologySpreadConstraint) { c.MinDomains = &domains }
}

// ignoreAffinity also counts nodes that the pod does not select.
func ignoreAffinity(c *v1.TopologySpreadConstraint) {
	c.NodeAffinityPolicy = new(v1.NodeInclusionPolicyIgnore)
}

// honorTaints only counts nodes whose taints the pod tolerates.
func honorTaints(c *v1.TopologySpreadConstraint) {
	c.NodeTaintsPolicy = new(v1.NodeInclusionPolicyHonor)
}

// matchVersion only counts pods of the same version.
func matchVersion(c *v1.TopologySpreadConstraint) { c.MatchLabelKeys = []string{"version"} }

// matchApp only counts pods of the same application, with an empty selector.
func matchApp(c *v1.TopologySpreadConstraint) {
	c.LabelSelector, c.MatchLabelKeys = &metav1.LabelSelector{}, []string{"app"}
}

func soft(c *v1.TopologySpreadConstraint) { c.WhenUnsatisfiable = v1.ScheduleAnyway }

// spreadPod returns a pod with app=web and constraints.
func spreadPod(constraints ...v1.TopologySpreadConstraint) *fixture.PodBuilder {
	pod := webPod("new")
	for _, c := range constraints {
		pod.Spread(c)
	}
	return pod
}

var notA = fixture.NodeSelectorTerm(fixture.NotIn(hostname, "a"))

var _ = table("A pod with topology spread constraints",
	entry("fits on the one node of four without a pod", scenario{
		nodes: zonedNodes(), existing: webPodsOn("a", "b", "d"),
		pod: spreadPod(spreadConstraint(hostname)), want: boundTo("c"),
	}),
	entry("fits on all nodes but the fullest with maxSkew 2", scenario{
		nodes: zonedNodes(), existing: webPodsOn("a", "a", "d"),
		pod: spreadPod(spreadConstraint(hostname, skew(2))), want: boundTo("b", "c", "d"),
	}),
	entry("is compared only with nodes that it selects", scenario{
		nodes: zonedNodes(), existing: webPodsOn("a", "d"),
		pod: spreadPod(spreadConstraint(hostname)).RequireNodeAffinity(fixture.NodeSelectorTerm(fixture.In(zone, "z1"))), want: boundTo("b"),
	}),
	entry("fits where both constraints are met", scenario{
		nodes: zonedNodes(), existing: webPodsOn("a", "b", "d", "d"),
		pod: spreadPod(spreadConstraint(zone), spreadConstraint(hostname)), want: boundTo("c"),
	}),
	entry("fits on no node when no node meets both constraints", scenario{
		nodes: zonedNodes(), existing: webPodsOn("b", "b", "c", "c", "d"),
		pod:  spreadPod(spreadConstraint(zone), spreadConstraint(hostname)).RequireNodeAffinity(notA),
		want: unschedulable("1 " + nodeAffinityMismatch + ", 3 " + spreadMismatch),
	}),
	entry("and minDomains greater than the number of nodes has a minimum of 0", scenario{
		nodes: zonedNodes(), existing: webPodsOn("b", "b", "c", "c", "d"),
		pod: spreadPod(spreadConstraint(hostname, skew(2), minDomains(4))).RequireNodeAffinity(notA), want: boundTo("d"),
	}),
	entry("and minDomains less than the number of nodes has the minimum of all nodes", scenario{
		nodes: zonedNodes(), existing: webPodsOn("b", "b", "c", "c", "d"),
		pod: spreadPod(spreadConstraint(hostname, skew(2), minDomains(2))).RequireNodeAffinity(notA), want: boundTo("b", "c", "d"),
	}),
	entry("and minDomains greater than the number of zones has a minimum of 0", scenario{
		nodes: zonedNodes(), existing: webPodsOn("a", "b", "c"),
		pod: spreadPod(spreadConstraint(zone, skew(2), minDomains(3))), want: boundTo("c", "d"),
	}),
	entry("and minDomains less than the number of zones has the minimum of all zones", scenario{
		nodes: zonedNodes(), existing: webPodsOn("b", "c", "d"),
		pod: spreadPod(spreadConstraint(zone, skew(2), minDomains(1))), want: boundTo("a", "b", "c", "d"),
	}),
	entry("does not count pods on nodes that it does not select", scenario{
		nodes: zonedNodes(labelSSD, labelSSD, nil, labelSSD), existing: webPodsOn("a", "b", "c", "d"),
		pod: spreadPod(spreadConstraint(zone)).NodeSelector("disk", "ssd"), want: boundTo("d"),
	}),
	entry("counts pods on nodes that it does not select with nodeAffinityPolicy Ignore", scenario{
		nodes: zonedNodes(labelSSD, labelSSD, nil, labelSSD), existing: webPodsOn("a", "c", "d"),
		pod: spreadPod(spreadConstraint(zone, ignoreAffinity)).RequireNodeAffinity(fixture.NodeSelectorTerm(fixture.In("disk", "ssd"))), want: boundTo("a", "b"),
	}),
	entry("does not count pods on tainted nodes with nodeTaintsPolicy Honor", scenario{
		nodes: zonedNodes(nil, nil, taintRed, nil), existing: webPodsOn("a", "b", "c", "d"),
		pod: spreadPod(spreadConstraint(zone, honorTaints)), want: boundTo("d"),
	}),
	entry("counts pods on tainted nodes", scenario{
		nodes: zonedNodes(nil, nil, taintRed, nil), existing: webPodsOn("a", "b", "c", "d"),
		pod: spreadPod(spreadConstraint(zone)), want: boundTo("a", "b", "d"),
	}),
	entry("and two constraints counts pods on tainted nodes, and none on nodes that it does not select", scenario{
		nodes: zonedNodes(labelSSD, taintedSSD, nil, labelSSD), existing: webPodsOn("a", "b", "c", "d"),
		pod: spreadPod(spreadConstraint(zone), spreadConstraint(hostname)).NodeSelector("disk", "ssd"), want: boundTo("d"),
	}),
	entry("and two constraints that count different nodes fits where both are met", scenario{
		nodes: zonedNodes(labelSSD, taintedSSD, nil, labelSSD), existing: webPodsOn("a", "b", "c", "d"),
		pod: spreadPod(spreadConstraint(zone, ignoreAffinity), spreadConstraint(hostname, honorTaints)).NodeSelector("disk", "ssd"), want: boundTo("a", "d"),
	}),
	entry("and matchLabelKeys fits where there are other versions", scenario{
		nodes: zonedNodes(), existing: append(webPodsOn("a", "b"), versionedPod("same", "2").On("c")),
		pod: spreadPod(spreadConstraint(zone, matchVersion)).Label("version", "2"), want: boundTo("a", "b"),
	}),
	entry("and matchLabelKeys without a selector fits where there are fewer", scenario{
		nodes: zonedNodes(), existing: webPodsOn("a", "b", "c"),
		pod: spreadPod(spreadConstraint(zone, matchApp)), want: boundTo("c", "d"),
	}),
)

var _ = Describe("A pod with topology spread constraints and a higher priority", func() {
	It("evicts a pod that violates them", minute, func(ctx SpecContext) {
		// No kubelet runs: a victim without grace period is deleted at once.
		old := webPodsOn("b", "b", "c", "c", "d")
		for _, pod := range old {
			pod.Mutate(func(p *v1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(0)) })
		}
		scenario{
			nodes: zonedNodes(), existing: old,
			pod: spreadPod(spreadConstraint(zone), spreadConstraint(hostname)).RequireNodeAffinity(notA).
				Mutate(func(p *v1.Pod) { p.Spec.PriorityClassName = "high" }),
			want: oneOf("b", "c", "d"),
		}.run(ctx)
	})
})
