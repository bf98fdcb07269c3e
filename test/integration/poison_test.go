package integration

import (
	"fmt"
	"time"

	"github.com/berthdev/berth/test/support/apitest"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("A plugin that is poisoned by a pod", func() {
	It("has it set aside, told so and counted, while others go on; a change tries it at once", minute, func(ctx SpecContext) {
		y, p, q := aYard(ctx), aProfile(ctx, pickily), aProfile(ctx)
		aNode(ctx, y.node("n"))
		expectReady(ctx, p)
		expectReady(ctx, q)
		odd := aPod(ctx, y.pod(p, "odd").Label("picky", "panics"))
		for i := range 5 {
			admin.ExpectBound(ctx, aPod(ctx, y.pod(p, fmt.Sprint("p", i))), aPod(ctx, y.pod(q, fmt.Sprint("q", i))))
		}
		Eventually(admin.Standing(ctx, odd)).WithTimeout(40 * time.Second).Should(SatisfyAll(
			ContainSubstring("Quarantined"), ContainSubstring(`plugin "Picky" panicked repeatedly in Filter: the pod is quarantined until `)))
		Eventually(func(g Gomega) {
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
			g.Expect(p.Status.Queue).To(HaveField("Quarantined", BeEquivalentTo(1)))
		}).Should(Succeed())
		apitest.Change(ctx, admin, odd, func(pod *v1.Pod) { pod.Labels["picky"] = "" })
		admin.ExpectBound(ctx, odd)
	})

	It("is left behind when it hangs: others go on, and what it says afterwards changes nothing", minute, func(ctx SpecContext) {
		y, p, q := aYard(ctx), aProfile(ctx, pickily), aProfile(ctx)
		aNode(ctx, y.node("n"))
		expectReady(ctx, p)
		expectReady(ctx, q)
		odd := aPod(ctx, y.pod(p, "odd").Label("picky", "hangs"))
		Eventually(admin.Standing(ctx, odd)).WithTimeout(30 * time.Second).Should(SatisfyAll(
			ContainSubstring(v1.PodReasonSchedulerError), ContainSubstring(`plugin "Picky" did not come back from Filter within 10s`)))
		admin.ExpectBound(ctx, aPod(ctx, y.pod(p, "a")), aPod(ctx, y.pod(q, "b")))
		Consistently(func() string {
			_ = admin.Get(ctx, client.ObjectKeyFromObject(odd), odd)
			return odd.Spec.NodeName
		}).WithTimeout(2 * time.Second).Should(BeEmpty())
		apitest.Change(ctx, admin, odd, func(pod *v1.Pod) { pod.Labels["picky"] = "" })
		admin.ExpectBound(ctx, odd)
	})
})
