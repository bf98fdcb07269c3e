package placement

import (
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berthdev/berth/test/support/fixture"
)

// square are four nodes: a and b in zone z1, c and d in zone z2. edits change
// them, one node after the other; nil changes nothing.
func square(edits ...func(*fixture.NodeBuilder)) []*fixture.NodeBuilder {
	all := nodes(fixture.Node("a").Zone("z1"), fixture.Node("b").Zone("z1"), fixture.Node("c").Zone("z2"), fixture.Node("d").Zone("z2"))
	for i, edit := range edits {
		if edit != nil {
			edit(all[i])
		}
	}
	return all
}

func ssd(node *fixture.NodeBuilder) { node.Label("disk", "ssd") }

func closed(node *fixture.NodeBuilder) { node.Taint("team", "red", v1.TaintEffectNoSchedule) }

func closedSSD(node *fixture.NodeBuilder) { ssd(node); closed(node) }

// even spreads pods with app=web over the domains of topology, as edits say.
func even(topology string, edits ...func(*v1.TopologySpreadConstraint)) v1.TopologySpreadConstraint {
	c := fixture.HardSpreadConstraint(topology, "app", "web")
	for _, edit := range edits {
		edit(&c)
	}
	return c
}

func skew(n int32) func(*v1.TopologySpreadConstraint) {
	return func(c *v1.TopologySpreadConstraint) { c.MaxSkew = n }
}

func atLeast(domains int32) func(*v1.TopologySpreadConstraint) {
	return func(c *v1.TopologySpreadConstraint) { c.MinDomains = &domains }
}

// everyNode counts the nodes that the pod does not select, too.
func everyNode(c *v1.TopologySpreadConstraint) {
	c.NodeAffinityPolicy = new(v1.NodeInclusionPolicyIgnore)
}

// openNodes counts only nodes whose taints the pod bears.
func openNodes(c *v1.TopologySpreadConstraint) { c.NodeTaintsPolicy = new(v1.NodeInclusionPolicyHonor) }

// sameVersion counts only pods of the incoming pod's version.
func sameVersion(c *v1.TopologySpreadConstraint) { c.MatchLabelKeys = []string{"version"} }

// sameApp counts the pods of the incoming pod's application, and asks for
// nothing else.
func sameApp(c *v1.TopologySpreadConstraint) {
	c.LabelSelector, c.MatchLabelKeys = &metav1.LabelSelector{}, []string{"app"}
}

func rather(c *v1.TopologySpreadConstraint) { c.WhenUnsatisfiable = v1.ScheduleAnyway }

// spread is a pod with app=web and constraints.
func spread(constraints ...v1.TopologySpreadConstraint) *fixture.PodBuilder {
	pod := web("new")
	for _, c := range constraints {
		pod.Spread(c)
	}
	return pod
}

var notA = fixture.NodeSelectorTerm(fixture.NotIn(host, "a"))

var _ = table("A pod that must be spread evenly",
	entry("goes to the one node of four without any", scenario{
		nodes: square(), there: crowd("a", "b", "d"),
		pod: spread(even(host)), want: on("c"),
	}),
	entry("goes anywhere but to the fullest node when it may be uneven by two", scenario{
		nodes: square(), there: crowd("a", "a", "d"),
		pod: spread(even(host, skew(2))), want: on("b", "c", "d"),
	}),
	entry("is compared with the nodes that it selects alone", scenario{
		nodes: square(), there: crowd("a", "d"),
		pod: spread(even(host)).RequireNodeAffinity(fixture.NodeSelectorTerm(fixture.In(zone, "z1"))), want: on("b"),
	}),
	entry("goes where both of its constraints are kept", scenario{
		nodes: square(), there: crowd("a", "b", "d", "d"),
		pod: spread(even(zone), even(host)), want: on("c"),
	}),
	entry("fits nowhere when one node keeps the one constraint and others the other", scenario{
		nodes: square(), there: crowd("b", "b", "c", "c", "d"),
		pod:  spread(even(zone), even(host)).RequireNodeAffinity(notA),
		want: refused("1 " + notSelected + ", 3 " + notEven),
	}),
	entry("and wants more domains than there are is compared with none", scenario{
		nodes: square(), there: crowd("b", "b", "c", "c", "d"),
		pod: spread(even(host, skew(2), atLeast(4))).RequireNodeAffinity(notA), want: on("d"),
	}),
	entry("and wants fewer domains than there are is compared with the emptiest", scenario{
		nodes: square(), there: crowd("b", "b", "c", "c", "d"),
		pod: spread(even(host, skew(2), atLeast(2))).RequireNodeAffinity(notA), want: on("b", "c", "d"),
	}),
	entry("and wants more zones than there are is compared with none", scenario{
		nodes: square(), there: crowd("a", "b", "c"),
		pod: spread(even(zone, skew(2), atLeast(3))), want: on("c", "d"),
	}),
	entry("and wants fewer zones than there are is compared with the emptiest", scenario{
		nodes: square(), there: crowd("b", "c", "d"),
		pod: spread(even(zone, skew(2), atLeast(1))), want: on("a", "b", "c", "d"),
	}),
	entry("does not see pods on nodes that it does not select", scenario{
		nodes: square(ssd, ssd, nil, ssd), there: crowd("a", "b", "c", "d"),
		pod: spread(even(zone)).NodeSelector("disk", "ssd"), want: on("d"),
	}),
	entry("sees pods on nodes that it does not select when it says so", scenario{
		nodes: square(ssd, ssd, nil, ssd), there: crowd("a", "c", "d"),
		pod: spread(even(zone, everyNode)).RequireNodeAffinity(fixture.NodeSelectorTerm(fixture.In("disk", "ssd"))), want: on("a", "b"),
	}),
	entry("does not see pods on nodes with taints when it says so", scenario{
		nodes: square(nil, nil, closed, nil), there: crowd("a", "b", "c", "d"),
		pod: spread(even(zone, openNodes)), want: on("d"),
	}),
	entry("sees pods on nodes with taints", scenario{
		nodes: square(nil, nil, closed, nil), there: crowd("a", "b", "c", "d"),
		pod: spread(even(zone)), want: on("a", "b", "d"),
	}),
	entry("by two constraints sees tainted nodes, and none that it does not select", scenario{
		nodes: square(ssd, closedSSD, nil, ssd), there: crowd("a", "b", "c", "d"),
		pod: spread(even(zone), even(host)).NodeSelector("disk", "ssd"), want: on("d"),
	}),
	entry("by two constraints that see different nodes goes where both are kept", scenario{
		nodes: square(ssd, closedSSD, nil, ssd), there: crowd("a", "b", "c", "d"),
		pod: spread(even(zone, everyNode), even(host, openNodes)).NodeSelector("disk", "ssd"), want: on("a", "d"),
	}),
	entry("among its version goes where there are others", scenario{
		nodes: square(), there: append(crowd("a", "b"), kin("same", "2").On("c")),
		pod: spread(even(zone, sameVersion)).Label("version", "2"), want: on("a", "b"),
	}),
	entry("among its application, which only a key names, goes where there are fewer", scenario{
		nodes: square(), there: crowd("a", "b", "c"),
		pod: spread(even(zone, sameApp)), want: on("c", "d"),
	}),
)

var _ = Describe("A pod that must be spread evenly and matters more", func() {
	It("evicts who keeps it from that", minute, func(ctx SpecContext) {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 100}
		Expect(admin.Create(ctx, class)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(admin.Delete(ctx, class)).To(Succeed()) })
		// Nobody plays the kubelet: a victim without grace is gone at once.
		old := crowd("b", "b", "c", "c", "d")
		for _, pod := range old {
			pod.Mutate(func(p *v1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(0)) })
		}
		scenario{
			nodes: square(), there: old,
			pod: spread(even(zone), even(host)).RequireNodeAffinity(notA).
				Mutate(func(p *v1.Pod) { p.Spec.PriorityClassName = class.Name }),
			want: oneOf("b", "c", "d"),
		}.play(ctx)
	})
})
