package integration

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/operator"
)

var _ = Describe("A cluster that does not serve SchedulingDecisions", func() {
	It("has its pods scheduled all the same, and explained once it does", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx)
		stopManager()
		_, err := kubectl(ctx, "delete", "crd", "schedulingdecisions.berth.dev")
		Expect(err).NotTo(HaveOccurred())
		installed := false
		install := func(ctx SpecContext) {
			if !installed {
				Expect(operator.Install(ctx, cp)).To(Succeed())
				installed = true
			}
		}
		DeferCleanup(install)
		waits := aPod(ctx, strangersPod(y, "waits"))
		Eventually(func() error { return admin.List(ctx, &v1alpha1.SchedulingDecisionList{}) }).ShouldNot(Succeed())
		berth = startManager(ctx)
		explain(why(waits, "why"))
		aNode(ctx, y.node("n").Capacity("cpu", "1"))
		admin.ExpectBound(ctx, aPod(ctx, y.pod(p, "goes").Requests("cpu", "1")))

		install(ctx)
		Eventually(decisionOf(ctx, waits)).Should(HaveField("Status.Message", "why"))
	})
})
