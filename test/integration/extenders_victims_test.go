package integration

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/test/support/fixture"
)

var _ = Describe("An extender that is asked about victims", Ordered, ContinueOnFailure, func() {
	allowExtenders()

	It("drops nodes, and names others of those who are there", minute, func(ctx SpecContext) {
		v, y, classes := aVoice(), aYard(ctx), priorities(ctx, 3, v1.PreemptLowerPriority)
		p := aProfile(ctx, neverFlushing, extendedBy(v, preempts))
		a, b := aNode(ctx, y.node("a").Capacity("cpu", "2")), aNode(ctx, y.node("b").Capacity("cpu", "2"))
		on := func(n *v1.Node, name, class string) *v1.Pod {
			return aPod(ctx, ranked(y.pod(p, name).NodeSelector(v1.LabelHostname, n.Name).Requests("cpu", "1"), class))
		}
		all := []*v1.Pod{on(a, "a1", classes[0]), on(a, "a2", classes[0]), on(b, "least", classes[0]), on(b, "named", classes[1])}
		admin.ExpectBound(ctx, all...)
		v.says(func(v *voice) { v.preempt = clearing(b, all[3]) })
		high := aPod(ctx, ranked(y.pod(p, "high").Requests("cpu", "1"), classes[2]))
		Eventually(promised(ctx, high)).Should(Equal(b.Name))
		Eventually(leaving(ctx, all[3])).ShouldNot(BeEmpty())
		for _, spared := range all[:3] {
			Expect(leaving(ctx, spared)(Default)).To(BeEmpty(), spared.Name)
		}
		Expect(v.asked()).To(ConsistOf(a.Name, b.Name))
		admin.Remove(ctx, all[3])
		Eventually(admin.Place(ctx, high)).Should(Equal(b.Name))
	})

	It("evicts nobody whom the pod could not evict", minute, func(ctx SpecContext) {
		v, y, classes := aVoice(), aYard(ctx), priorities(ctx, 2, v1.PreemptLowerPriority)
		p := aProfile(ctx, neverFlushing, extendedBy(v, preempts))
		n := aNode(ctx, y.node("n").Capacity("cpu", "2"))
		low := aPod(ctx, ranked(y.pod(p, "low").Requests("cpu", "1"), classes[0]))
		equal := aPod(ctx, ranked(y.pod(p, "equal").Requests("cpu", "1"), classes[1]))
		admin.ExpectBound(ctx, low, equal)
		v.says(func(v *voice) { v.preempt = clearing(n, equal) })
		high := aPod(ctx, ranked(y.pod(p, "high").Requests("cpu", "1"), classes[1]))
		Eventually(admin.Standing(ctx, high)).Should(ContainSubstring(
			`extender "rack": preempt: the answer names a victim whose priority is not lower than the pod's`))
		Expect(promised(ctx, high)(Default)).To(BeEmpty())
		Expect(leaving(ctx, low)(Default)).To(BeEmpty())
		Expect(leaving(ctx, equal)(Default)).To(BeEmpty())

		By("and whom it could, when it names that one")
		v.says(func(v *voice) { v.preempt = clearing(n, low) })
		n.Status.Allocatable = fixture.Resources("cpu", "2500m", "pods", "110") // which wakes the pod, and is not enough
		Expect(admin.Status().Update(ctx, n)).To(Succeed())
		Eventually(promised(ctx, high)).Should(Equal(n.Name))
		Eventually(leaving(ctx, low)).ShouldNot(BeEmpty())
	})

	It("that fails has nobody evicted, unless it may be ignored", minute, func(ctx SpecContext) {
		v, y, classes := aVoice(), aYard(ctx), priorities(ctx, 2, v1.PreemptLowerPriority)
		strict, lax := aProfile(ctx, neverFlushing, extendedBy(v, preempts)), aProfile(ctx, neverFlushing, extendedBy(v, preempts, mayIgnored))
		aNode(ctx, y.node("n").Capacity("cpu", "1"))
		low := aPod(ctx, ranked(y.pod(strict, "low").Requests("cpu", "1"), classes[0]))
		admin.ExpectBound(ctx, low)
		waits := aPod(ctx, ranked(y.pod(strict, "waits").Requests("cpu", "1"), classes[1]))
		Eventually(admin.Standing(ctx, waits)).Should(ContainSubstring(`extender "rack": preempt: status 500, want 200`))
		Expect(leaving(ctx, low)(Default)).To(BeEmpty())
		goes := aPod(ctx, ranked(y.pod(lax, "goes").Requests("cpu", "1"), classes[1]))
		Eventually(promised(ctx, goes)).Should(Equal(low.Spec.NodeName))
		Eventually(leaving(ctx, low)).ShouldNot(BeEmpty())
	})
})

var _ = Describe("A node that an extender refuses for good", Ordered, ContinueOnFailure, func() {
	allowExtenders()

	It("is cleared for nobody, and another one is", minute, func(ctx SpecContext) {
		v, y, classes := aVoice(), aYard(ctx), priorities(ctx, 2, v1.PreemptLowerPriority)
		p := aProfile(ctx, neverFlushing, extendedBy(v, filters))
		n := aNode(ctx, y.node("n").Capacity("cpu", "2"))
		v.says(func(v *voice) { v.filter = func(string) (bool, string, bool) { return true, "", true } })
		low := aPod(ctx, ranked(y.pod(p, "low").Requests("cpu", "1"), classes[0]))
		admin.ExpectBound(ctx, low)
		v.says(func(v *voice) {
			v.filter = func(string) (bool, string, bool) { return false, "the rack is locked", false }
		})
		high := aPod(ctx, ranked(y.pod(p, "high").Requests("cpu", "1"), classes[1]))
		Eventually(admin.Standing(ctx, high)).Should(HaveSuffix(
			"0/1 nodes are available: 1 the rack is locked. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."))

		full := aNode(ctx, y.node("full").Capacity("cpu", "1"))
		other := aPod(ctx, ranked(y.pod(aProfile(ctx, neverFlushing), "other").NodeSelector(v1.LabelHostname, full.Name).Requests("cpu", "1"), classes[0]))
		admin.ExpectBound(ctx, other)
		Eventually(promised(ctx, high)).Should(Equal(full.Name))
		Eventually(leaving(ctx, other)).ShouldNot(BeEmpty())
		Expect(leaving(ctx, low)(Default)).To(BeEmpty(), "%s stays as it was", n.Name)
	})
})
