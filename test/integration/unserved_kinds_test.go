package integration

import (
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/fixture"
)

var _ = Describe("An API server that does not serve every kind that plugins read", func() {
	It("has its pods scheduled all the same, and profiles say what they do not hear of", minute, func(ctx SpecContext) {
		// The API server itself waits for others, such as deviceclasses since 1.36.
		lacking, err := cp.AnotherAPIServer(ctx, "--runtime-config=storage.k8s.io/v1/csistoragecapacities=false,storage.k8s.io/v1/csinodes=false")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { cp.End(cp.Process("kube-apiserver")) })
		there := accountConfig(ctx)
		there.Host, there.TLSClientConfig = lacking.Host, lacking.TLSClientConfig

		y, p := aYard(ctx), aProfile(ctx)
		stopManager()
		berth = runManager(there, nil, suiteOptions()...)
		DeferCleanup(func(ctx SpecContext) {
			stopManager()
			berth = startManager(ctx)
		})
		Eventually(now(ctx, p)).Should(ConsistOf(append(slices.Clone(all), "Degraded True EventsMissed")))
		Eventually(func(g Gomega) []string {
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
			return messages(p)
		}).Should(ContainElement(SatisfyAll(
			ContainSubstring("events of storage.k8s.io/CSIStorageCapacity are not received, so pods that VolumeBinding rejected may wait longer"),
			ContainSubstring("events of storage.k8s.io/CSINode are not received, so pods that NodeVolumeLimits or VolumeBinding rejected may wait longer"),
			ContainSubstring("could not find the requested resource"),
		)))

		By("pods, one of which has a volume")
		class := apitest.Created(ctx, admin, fixture.StorageClass(y.name+"-there", "")).Name
		claim := apitest.Created(ctx, admin, fresh(fixture.Claim(y.name+"/data", class).Obj()))
		disk := apitest.Created(ctx, admin, fresh(fixture.Volume(y.name+"-disk", class).BoundTo(claim).Obj()))
		apitest.Change(ctx, admin, claim, func(c *v1.PersistentVolumeClaim) { isBoundTo(c, disk.Name) })
		aNode(ctx, y.node("n"))
		admin.ExpectBound(ctx, aPod(ctx, y.pod(p, "web")), aPod(ctx, y.pod(p, "db").Claim("data")))
	})
})

// messages are what the conditions of a profile say.
func messages(p *v1alpha1.SchedulingProfile) (all []string) {
	for _, c := range p.Status.Conditions {
		all = append(all, c.Message)
	}
	return all
}
