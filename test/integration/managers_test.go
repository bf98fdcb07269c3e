package integration

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	manager "github.com/berthdev/berth/operator"
	"github.com/berthdev/berth/test/support/operator"
)

var _ = Describe("Two Managers in one process", func() {
	It("have metrics of their own, and the one that loses the Lease ends without the other", minute, func(ctx SpecContext) {
		stopManager()
		DeferCleanup(func(ctx SpecContext) { berth = startManager(ctx) })
		start := func() (*operator.InProcess, *prometheus.Registry) {
			registry := prometheus.NewRegistry()
			m := runManager(accountConfig(ctx), operator.ShortLease, suiteOptions(manager.WithMetricsRegistry(registry))...)
			DeferCleanup(func() { _ = m.Stop() }) // the spec looks at what it returns
			return m, registry
		}
		leader, its := start()
		Eventually(leader.Elected()).Should(BeClosed())
		follower, others := start()
		y, p := aYard(ctx), aProfile(ctx)
		aNode(ctx, y.node("n"))
		admin.ExpectBound(ctx, aPod(ctx, y.pod(p, "by-the-leader")))
		Eventually(follower.Ready).Should(Succeed())
		Expect(follower.Elected()).NotTo(BeClosed())

		By("who registered what")
		Expect(named(its, "berth_rebinds_total")).To(BeTrue())
		Expect(named(others, "berth_rebinds_total")).To(BeTrue())
		Expect(named(metrics.Registry, "berth_rebinds_total")).To(BeFalse(), "a Manager registers nothing in the registry of the process")

		By("the Lease that another process takes")
		takeLease(ctx)
		Eventually(leader.Ended).Should(BeClosed())
		Expect(leader.Stop()).To(MatchError(manager.ErrLeaseLost))
		Expect(follower.Ended).NotTo(BeClosed())
		admin.ExpectBound(ctx, aPod(ctx, y.pod(p, "by-the-follower")))
		Expect(follower.Elected()).To(BeClosed())
		Expect(follower.Stop()).To(Succeed())
	})
})

var _ = Describe("The informers of these specs", func() {
	It("keep of pods what those of a shipped manager keep", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx)
		pod := aPod(ctx, y.pod(p, "with-a-command").Requests("cpu", "1").Mutate(func(pod *v1.Pod) {
			pod.Spec.Containers[0].Command = []string{"sleep", "infinity"}
			pod.Spec.Containers[0].Env = []v1.EnvVar{{Name: "COLOUR", Value: "blue"}}
		}))
		Eventually(func(g Gomega) {
			kept, err := berth.Informers().Core().V1().Pods().Lister().Pods(pod.Namespace).Get(pod.Name)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(kept.Spec.Containers[0].Image).NotTo(BeEmpty())
			g.Expect(kept.Spec.Containers[0].Command).To(BeEmpty())
			g.Expect(kept.Spec.Containers[0].Env).To(BeEmpty())
			g.Expect(kept.ManagedFields).To(BeEmpty())
		}).Should(Succeed())
	})
})

// named reports whether metrics of that name are in a registry.
func named(registry prometheus.Gatherer, name string) bool {
	GinkgoHelper()
	families, err := registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() == name {
			return true
		}
	}
	return false
}

// takeLease writes another process into the Lease, as one that holds it from now on and
// does not renew it.
func takeLease(ctx context.Context) {
	GinkgoHelper()
	leases := cp.Client().CoordinationV1().Leases(namespace)
	Eventually(func(g Gomega) { // the leader renews it meanwhile
		lease, err := leases.Get(ctx, "berth-manager", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = ptr.To("another"), ptr.To(metav1.NowMicro())
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}).Should(Succeed())
}
