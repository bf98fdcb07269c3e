package volumes

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/berthdev/berth/test/support/fixture"
)

var _ = Describe("A pod with a claim that waits for its first consumer", func() {
	It("gets the smallest volume that is large enough, and goes where it is", minutes, func(ctx SpecContext) {
		s := aScene(ctx, 3)
		s.create(ctx, fixture.StorageClass("static", ""),
			s.volume("large", "static", 2).Capacity("9Gi").Obj(), s.volume("fitting", "static", 2).Capacity("5Gi").Obj(),
			s.volume("small", "static", 1).Capacity("1Gi").Obj(), s.volume("other", "another", 0).Capacity("5Gi").Obj())
		s.available(ctx, 4)
		pod := s.pod("web", "data")
		s.create(ctx, s.claim("data", "static").Requests("4Gi").Obj(), pod)
		Eventually(admin.Place(ctx, pod)).Should(Equal("n2"))
		Expect(s.held(ctx, "data")(Default)).To(Equal(s.name + "-fitting"))
	})

	It("waits while there is none, and is bound when one comes", minutes, func(ctx SpecContext) {
		s := aScene(ctx, 2)
		pod := s.pod("web", "data")
		s.create(ctx, fixture.StorageClass("late", ""), s.claim("data", "late").Obj(), pod)
		Eventually(admin.Standing(ctx, pod)).Should(HavePrefix(
			"False Unschedulable: 0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind."))
		s.create(ctx, s.volume("v", "late", 1).Obj())
		Eventually(admin.Place(ctx, pod)).Should(Equal("n1"))
	})

	It("has a volume made for it on the node that is chosen", minutes, func(ctx SpecContext) {
		s := aScene(ctx, 2)
		s.create(ctx, fixture.StorageClass("made", "example.com/played"), s.claim("data", "made").Obj())
		defer s.provisioner(ctx, s.whereChosen)()
		pod := s.pod("web", "data")
		s.create(ctx, pod)
		Eventually(admin.Place(ctx, pod)).ShouldNot(BeEmpty())
		Expect(s.held(ctx, "data")(Default)).To(Equal(s.name + "-made-for-data"))
	})

	It("is tried anew when no volume can be made on that node", minutes, func(ctx SpecContext) {
		s := aScene(ctx, 2)
		s.create(ctx, fixture.StorageClass("stumbling", "example.com/played"), s.claim("data", "stumbling").Obj())
		tries := 0
		defer s.provisioner(ctx, func(claim *v1.PersistentVolumeClaim) *v1.PersistentVolume {
			made := s.whereChosen(claim)
			if made == nil {
				return nil
			}
			if tries++; tries == 1 {
				delete(claim.Annotations, volume.AnnSelectedNode)
				Expect(admin.Update(ctx, claim)).To(Succeed())
				return nil
			}
			return made
		})()
		pod := s.pod("web", "data")
		s.create(ctx, pod)
		Eventually(admin.Place(ctx, pod)).ShouldNot(BeEmpty())
		Expect(tries).To(Equal(2))
	})
})

var _ = Describe("A pod with a claim that is bound at once", func() {
	It("waits for the controller, and then goes where its volume is", minutes, func(ctx SpecContext) {
		s := aScene(ctx, 2)
		pod := s.pod("web", "data")
		s.create(ctx, fixture.ImmediateStorageClass("immediate", volume.NotSupportedProvisioner), s.claim("data", "immediate").Obj(), pod)
		Eventually(admin.Standing(ctx, pod)).Should(HavePrefix(
			"False Unschedulable: 0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims."))
		s.create(ctx, s.volume("v", "immediate", 1).Obj())
		Eventually(admin.Place(ctx, pod)).Should(Equal("n1"))
	})

	It("is told when its volume is out of reach", minutes, func(ctx SpecContext) {
		s := aScene(ctx, 2)
		pod := s.pod("web", "data")
		s.create(ctx, fixture.ImmediateStorageClass("remote", volume.NotSupportedProvisioner), s.volume("v", "remote", 7).Obj(), s.claim("data", "remote").Obj(), pod)
		Eventually(admin.Standing(ctx, pod)).Should(HavePrefix(
			"False Unschedulable: 0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity."))
	})
})

var _ = Describe("A pod without its claim", func() {
	It("waits for it", minutes, func(ctx SpecContext) {
		s := aScene(ctx, 1)
		s.create(ctx, fixture.StorageClass("absent", ""), s.volume("v", "absent", 0).Obj())
		s.available(ctx, 1)
		pod := s.pod("web", "data")
		s.create(ctx, pod)
		Eventually(admin.Standing(ctx, pod)).Should(HavePrefix(
			`False Unschedulable: 0/1 nodes are available: persistentvolumeclaim "data" not found.`))
		s.create(ctx, s.claim("data", "absent").Obj())
		Eventually(admin.Place(ctx, pod)).Should(Equal("n0"))
	})
})
