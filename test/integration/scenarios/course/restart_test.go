package course

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/test/support/operator"
)

// A manager of a process of its own is killed while a pod is in PreBind: all
// that is left of its place is what its status promises.
var _ = Describe("After the manager is killed", func() {
	It("a pod keeps the place that it was on its way to, and another, which is tried before it, goes elsewhere", minute, func(ctx SpecContext) {
		p := aProfile(ctx, at(preBinds, "First"), without(queueSorts, "*"), at(queueSorts, "ByName"))
		aNode(ctx, node("preferred").Capacity("pods", "1"))
		aNode(ctx, tainted("other", "rather-not").Mutate(ratherNot))
		ring(ctx)
		stopManager()
		DeferCleanup(func(ctx SpecContext) {
			stopManager()
			berth = startManager(ctx)
			Eventually(waiting(stagehands)).Should(Equal(decision.QueueCounts{Gated: 1}))
		})
		child := startChild(ctx)
		older := aPod(ctx, p, pod("tried-second"))
		Eventually(promised(ctx, older)).Should(Equal("preferred"))
		child.Kill()
		Expect(admin.Place(ctx, older)(Default)).To(BeEmpty())

		By("and the next one leads")
		newer := aPod(ctx, p, pod("tried-first"))
		first.plays(role{})
		berth = startManager(ctx, operator.ShortLease...)
		admin.ExpectBound(ctx, older, newer)
		Expect([]string{older.Spec.NodeName, newer.Spec.NodeName}).To(Equal([]string{"preferred", "other"}))
	})
})
