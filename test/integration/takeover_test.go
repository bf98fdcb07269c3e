package integration

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A follower", func() {
	It("runs what the leader runs, and speaks when it leads", minute, func(ctx SpecContext) {
		p := aProfile(ctx)
		expectReady(ctx, p)
		leader := berth
		Eventually(leader.Elected()).Should(BeClosed())
		berth = startManager(ctx)
		Eventually(func() bool { _, runs := berth.Scheduler().Profiles().Running(p.Name); return runs }).Should(BeTrue())
		Expect(berth.Elected()).NotTo(BeClosed())

		Expect(leader.Stop()).To(Succeed())
		edit(ctx, p, scoring("NoSuch"))
		Eventually(berth.Elected()).Should(BeClosed())
		Eventually(now(ctx, p)).Should(ContainElements("Ready False UnknownPlugin", "Programmed False PreviousRuns"))
		Expect(p.Status.Programmed.Generation).To(BeEquivalentTo(1), "built while it followed")
	})
})
