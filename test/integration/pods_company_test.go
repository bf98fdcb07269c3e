package integration

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/test/support/fixture"
)

var _ = Describe("Pods that care for each other", func() {
	It("are spread evenly where they say so", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx)
		for _, name := range []string{"a", "b", "c"} {
			aNode(ctx, y.node(name))
		}
		held := map[string]int{}
		for i := range 6 {
			pod := aPod(ctx, y.pod(p, fmt.Sprint("web", i)).Label("app", "web").Spread(fixture.HardSpreadConstraint(v1.LabelHostname, "app", "web")))
			held[recordOf(ctx, pod).Node]++
		}
		Expect(held).To(HaveLen(3))
		Expect(held).To(HaveEach(2))
	})

	It("keep apart, and the one too many is told why", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx)
		aNode(ctx, y.node("a"))
		aNode(ctx, y.node("b"))
		loner := func(name string) *fixture.PodBuilder {
			return y.pod(p, name).Label("app", "web").RequirePodAntiAffinity(fixture.PodAffinityTerm(v1.LabelHostname, "app", "web"))
		}
		one, two := recordOf(ctx, aPod(ctx, loner("one"))), recordOf(ctx, aPod(ctx, loner("two")))
		Expect(one.Node).NotTo(Equal(two.Node))
		Eventually(admin.Standing(ctx, aPod(ctx, loner("three")))).Should(HavePrefix(
			"False Unschedulable: 0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules."))
		Eventually(admin.Standing(ctx, aPod(ctx, y.pod(p, "four").Label("app", "web")))).Should(HavePrefix(
			"False Unschedulable: 0/2 nodes are available: 2 node(s) didn't satisfy existing pods anti-affinity rules."))
	})

	It("find together, the first of them anywhere", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx)
		for _, name := range []string{"a", "b", "c"} {
			aNode(ctx, y.node(name).Zone(y.name+name))
		}
		together := func(name string) *fixture.PodBuilder {
			return y.pod(p, name).Label("app", "web").RequirePodAffinity(fixture.PodAffinityTerm(v1.LabelTopologyZone, "app", "web"))
		}
		first := recordOf(ctx, aPod(ctx, together("first")))
		for i := range 3 {
			Expect(recordOf(ctx, aPod(ctx, together(fmt.Sprint("next", i)))).Node).To(Equal(first.Node))
		}
	})
})
