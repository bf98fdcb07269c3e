package placement

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/support/fixture"
)

// Room is promised to pod mid while a victim leaves, which takes as long as the
// scenario wants: nobody plays the kubelet. Pod low fits beside the victim, and
// not beside mid.
var _ = Describe("A pod that is kept off by a promise to another gets its room", func() {
	BeforeEach(func(ctx SpecContext) {
		for name, value := range map[string]int32{"mid": 200, "high": 300} {
			class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
			Expect(admin.Create(ctx, class)).To(Succeed())
			DeferCleanup(func(ctx SpecContext) { Expect(admin.Delete(ctx, class)).To(Succeed()) })
		}
	}, NodeTimeout(patience))

	ranked := func(name, cpu, memory string) *fixture.PodBuilder {
		return asks(name, cpu, memory).Mutate(func(p *v1.Pod) { p.Spec.PriorityClassName = name })
	}
	promise := func(ctx context.Context) *cluster {
		GinkgoHelper()
		c := aCluster()
		c.comes(ctx, fixture.Node("a").Capacity("cpu", "4", "memory", "32"))
		c.create(ctx, fixture.Pod("victim").Requests("cpu", "3").On("a"))
		mid := c.create(ctx, ranked("mid", "2", "25"))
		Eventually(func(g Gomega) string {
			admin.Place(ctx, mid)(g)
			return mid.Status.NominatedNodeName
		}).Should(Equal("a"))
		c.expect(ctx, mid, refused("1 Insufficient cpu"))
		c.expect(ctx, c.create(ctx, fixture.Pod("low").Requests("memory", "20")), refused("1 Insufficient memory"))
		return c
	}

	It("when that one is deleted", minute, func(ctx SpecContext) {
		c := promise(ctx)
		admin.Remove(ctx, c.pods["mid"])
		c.expect(ctx, c.pods["low"], on("a"))
	})

	It("when that one has no use for it any more, since one that matters more came between", minute, func(ctx SpecContext) {
		c := promise(ctx)
		c.expect(ctx, c.create(ctx, ranked("high", "1", "10")), on("a"))
		admin.Remove(ctx, c.pods["victim"])
		c.expect(ctx, c.pods["low"], on("a"))
		c.expect(ctx, c.pods["mid"], refused("1 Insufficient memory"))
		Eventually(func(g Gomega) string {
			admin.Place(ctx, c.pods["mid"])(g)
			return c.pods["mid"].Status.NominatedNodeName
		}).Should(BeEmpty())
	})
})
