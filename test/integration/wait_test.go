package integration

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	berthac "github.com/berthdev/berth/api/v1alpha1/applyconfiguration/api/v1alpha1"
)

// kubectl wait believes a condition only when its observedGeneration is not
// behind metadata.generation. So it never lies as long as no condition says
// that it speaks of a generation that it does not: neither before the first
// visit, nor while a build takes its time, nor under a name that is used anew.
var _ = Describe("kubectl wait", func() {
	const ready = "--for=condition=Ready"

	It("returns when an edit runs, and not while it is built", minute, func(ctx SpecContext) {
		p := aProfile(ctx)
		Expect(kubectl(ctx, "wait", ready, "--timeout=30s", "sprof/"+p.Name)).Error().NotTo(HaveOccurred())

		open := gate.close()
		defer open()
		edit(ctx, p, afterBind(slow))
		_, err := kubectl(ctx, "wait", ready, "--timeout=1s", "sprof/"+p.Name)
		Expect(err).To(MatchError(ContainSubstring("timed out")))
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
		Expect(meta.IsStatusConditionTrue(conditions(p), string(v1alpha1.ConditionReady))).To(BeTrue(), "but of generation 1")

		open()
		Expect(kubectl(ctx, "wait", ready, "--timeout=30s", "sprof/"+p.Name)).Error().NotTo(HaveOccurred())
		expectReady(ctx, p)
		Expect(p.Status.Programmed.Generation).To(BeEquivalentTo(2))
	})

	It("does not believe the generation before a bad edit, nor the bad edit", minute, func(ctx SpecContext) {
		p := aProfile(ctx)
		expectReady(ctx, p)
		for range 3 {
			edit(ctx, p, scoring("NoSuch"))
			Expect(kubectl(ctx, "wait", ready, "--timeout=0", "sprof/"+p.Name)).Error().To(HaveOccurred())
			Eventually(now(ctx, p)).Should(ContainElement("Ready False UnknownPlugin"))
			edit(ctx, p, noPlugins)
			Expect(kubectl(ctx, "wait", ready, "--timeout=30s", "sprof/"+p.Name)).Error().NotTo(HaveOccurred())
		}
	})

	It("sees at once that the user must act", minute, func(ctx SpecContext) {
		p := aProfile(ctx, scoring("NoSuch"))
		Expect(kubectl(ctx, "wait", "--for=condition=Stalled", "--timeout=30s", "sprof/"+p.Name)).Error().NotTo(HaveOccurred())
	})

	It("does not believe what was said before the manager stopped", minute, func(ctx SpecContext) {
		p := aProfile(ctx)
		expectReady(ctx, p)
		stopManager()
		edit(ctx, p, scoring("NoSuch"))
		_, err := kubectl(ctx, "wait", ready, "--timeout=1s", "sprof/"+p.Name)
		berth = startManager(ctx)
		Expect(err).To(MatchError(ContainSubstring("timed out")))

		By("and the next leader visits every profile")
		Eventually(now(ctx, p)).Should(ContainElements("Ready False UnknownPlugin", "Programmed False PreviousRuns"))
	})
})

// What statusWriter takes for granted about the API server.
var _ = Describe("A status patch by server-side apply", func() {
	It("is held to the resource version that it names, and to no UID", minute, func(ctx SpecContext) {
		p := aProfile(ctx)
		expectReady(ctx, p)
		owner := client.FieldOwner("integration")
		over := func(version string) error {
			return admin.Status().Apply(ctx, berthac.SchedulingProfile(p.Name).WithResourceVersion(version).
				WithStatus(berthac.SchedulingProfileStatus().WithOmittedDecisions(1)), owner, client.ForceOwnership)
		}
		was := p.ResourceVersion
		edit(ctx, p, func(s *v1alpha1.SchedulingProfileSpec) { s.PercentageOfNodesToScore = 50 })
		Expect(over(was)).To(Satisfy(apierrors.IsConflict))

		Expect(admin.Status().Apply(ctx, berthac.SchedulingProfile(p.Name).WithUID(types.UID("another")).
			WithStatus(berthac.SchedulingProfileStatus().WithOmittedDecisions(1)), owner, client.ForceOwnership)).To(Succeed())
	})
})
