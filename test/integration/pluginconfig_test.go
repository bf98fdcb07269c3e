package integration

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berthdev/berth/api/v1alpha1"
)

var _ = Describe("A PluginConfig", func() {
	It("that no profile names has a verdict of its own", minute, func(ctx SpecContext) {
		c := aPluginConfig(ctx, strategy("MostAllocated"))
		Eventually(now(ctx, c)).Should(ConsistOf("Accepted True Accepted", "Programmed True Programmed"))
		Expect(c.Status.Hash).To(MatchRegexp("^[0-9a-f]{10}$"))
		Expect(c.Status.ReferenceCount).To(BeZero())
		Expect(message(c, v1alpha1.ConditionProgrammed)).To(Equal("no profile names it"))
	})

	It("is refused with the path of what is wrong, and its profiles say so", minute, func(ctx SpecContext) {
		c := aPluginConfig(ctx, strategy("MostAllocated"))
		p := aProfile(ctx, fitFrom(c.Name))
		expectReady(ctx, p)
		before := p.Status.Programmed.DeepCopy()

		editConfig(ctx, c, strategy("Most"))
		Eventually(now(ctx, c)).Should(ConsistOf("Accepted False InvalidArguments", "Programmed False PreviousRuns"))
		Expect(message(c, v1alpha1.ConditionAccepted)).To(SatisfyAll(
			HavePrefix("generation 1 keeps running in "+p.Name+"; generation 2 refused: spec.args.scoringStrategy.type"),
			ContainSubstring("MostAllocated")))
		Eventually(now(ctx, p)).Should(ConsistOf("Accepted True Accepted", "ResolvedRefs False PluginConfigRefused",
			"Programmed False PreviousRuns", "Ready False PluginConfigRefused", "Stalled True PluginConfigRefused"))
		Expect(p.Status.Programmed).To(Equal(before))
		Expect(message(p, v1alpha1.ConditionReady)).To(HavePrefix(
			"generation 1 with PluginConfig " + c.Name + " at generation 1 keeps running since "))

		editConfig(ctx, c, strategy("LeastAllocated"))
		expectReady(ctx, p)
		Eventually(now(ctx, c)).Should(ConsistOf("Accepted True Accepted", "Programmed True Programmed"))
	})

	It("counts the profiles that name it, by their generations", minute, func(ctx SpecContext) {
		c := aPluginConfig(ctx, strategy("MostAllocated"))
		p := aProfile(ctx, fitFrom(c.Name))
		users := func(g Gomega) []v1alpha1.ObjectGeneration {
			now(ctx, c)(g)
			g.Expect(c.Status.ReferenceCount).To(BeEquivalentTo(len(c.Status.ReferencedBy)))
			return c.Status.ReferencedBy
		}
		Eventually(users).Should(ConsistOf(v1alpha1.ObjectGeneration{Name: p.Name, Generation: 1}))
		edit(ctx, p, publishingEvery(7))
		Eventually(users).Should(ConsistOf(v1alpha1.ObjectGeneration{Name: p.Name, Generation: 2}))
		edit(ctx, p, func(s *v1alpha1.SchedulingProfileSpec) { s.PluginConfig = nil })
		Eventually(users).Should(BeEmpty())
	})

	It("is programmed when the last profile that names it has swapped", minute, func(ctx SpecContext) {
		const programmed = "--for=condition=Programmed"
		c := aPluginConfig(ctx, strategy("MostAllocated"))
		quick := aProfile(ctx, fitFrom(c.Name))
		late := aProfile(ctx, fitFrom(c.Name), afterBind(slow))
		expectReady(ctx, quick)
		expectReady(ctx, late)
		Expect(kubectl(ctx, "wait", programmed, "--timeout=30s", "plugcfg/"+c.Name)).Error().NotTo(HaveOccurred())

		open := gate.close()
		defer open()
		editConfig(ctx, c, strategy("LeastAllocated"))
		Eventually(func(g Gomega) {
			g.Expect(now(ctx, c)(g)).To(ConsistOf("Accepted True Accepted", "Programmed False PreviousRuns"))
			g.Expect(message(c, v1alpha1.ConditionProgrammed)).To(Equal("generation 2 runs in " + quick.Name +
				", generation 1 keeps running in " + late.Name + "; generation 2 does not run in " + late.Name))
		}).Should(Succeed())
		Expect(kubectl(ctx, "wait", programmed, "--timeout=0", "plugcfg/"+c.Name)).Error().To(HaveOccurred())

		open()
		Expect(kubectl(ctx, "wait", programmed, "--timeout=30s", "plugcfg/"+c.Name)).Error().NotTo(HaveOccurred())
		expectReady(ctx, late)
	})

	It("that is refused by nobody's doing is refused alone", minute, func(ctx SpecContext) {
		c := aPluginConfig(ctx, strategy("Most"))
		Eventually(now(ctx, c)).Should(ConsistOf("Accepted False InvalidArguments", "Programmed False NothingRuns"))
		Expect(c.Status.Hash).To(BeEmpty())
	})
})
