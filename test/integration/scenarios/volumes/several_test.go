package volumes

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/berthdev/berth/test/support/fixture"
)

var _ = DescribeTable("A pod whose claim is meant for one volume goes where that is:",
	func(ctx SpecContext, class func(name, provisioner string) *storagev1.StorageClass, meant func(*v1.PersistentVolumeClaim, *v1.PersistentVolume)) {
		s := aScene(ctx, 2)
		of := class(s.name, "")
		claim, volume := s.claim("data", of.Name).Obj(), s.volume("meant", of.Name, 1).Capacity("9Gi").Obj()
		meant(claim, volume)
		s.create(ctx, of, s.volume("fitting", of.Name, 0).Obj(), volume)
		s.phases(ctx, v1.VolumeAvailable, "fitting", "meant")
		pod := s.pod("web", "data")
		s.create(ctx, claim, pod)
		Eventually(admin.Place(ctx, pod)).Should(Equal("n1"))
		Expect(s.held(ctx, "data")(Default)).To(Equal(volume.Name))
		s.phases(ctx, v1.VolumeBound, "meant")
		s.phases(ctx, v1.VolumeAvailable, "fitting")
	},
	Entry("the claim names it and is bound at once", minutes, fixture.ImmediateStorageClass, theClaimNamesIt),
	Entry("the claim names it and waits", minutes, fixture.StorageClass, theClaimNamesIt),
	Entry("it names the claim, which is bound at once", minutes, fixture.ImmediateStorageClass, itNamesTheClaim),
	Entry("it names the claim, which waits", minutes, fixture.StorageClass, itNamesTheClaim),
)

func theClaimNamesIt(claim *v1.PersistentVolumeClaim, volume *v1.PersistentVolume) {
	claim.Spec.VolumeName = volume.Name
}

func itNamesTheClaim(claim *v1.PersistentVolumeClaim, volume *v1.PersistentVolume) {
	volume.Spec.ClaimRef = &v1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name}
}

var _ = Describe("A pod with two claims", func() {
	It("goes where there is a volume for either", minutes, func(ctx SpecContext) {
		s := aScene(ctx, 2)
		class := fixture.StorageClass(s.name, "")
		s.create(ctx, class, s.volume("alone", class.Name, 0).Obj(), s.volume("one", class.Name, 1).Obj(), s.volume("two", class.Name, 1).Obj())
		s.phases(ctx, v1.VolumeAvailable, "alone", "one", "two")
		pod := s.pod("web", "a", "b")
		s.create(ctx, s.claim("a", class.Name).Obj(), s.claim("b", class.Name).Obj(), pod)
		Eventually(admin.Place(ctx, pod)).Should(Equal("n1"))
		Expect([]string{s.held(ctx, "a")(Default), s.held(ctx, "b")(Default)}).To(ConsistOf(s.name+"-one", s.name+"-two"))
		s.phases(ctx, v1.VolumeAvailable, "alone")
	})

	It("waits, and holds neither, when no node has a volume for both", minutes, func(ctx SpecContext) {
		s := aScene(ctx, 2)
		class := fixture.StorageClass(s.name, "")
		s.create(ctx, class, s.volume("here", class.Name, 0).Obj(), s.volume("there", class.Name, 1).Obj())
		s.phases(ctx, v1.VolumeAvailable, "here", "there")
		pod := s.pod("web", "a", "b")
		s.create(ctx, s.claim("a", class.Name).Obj(), s.claim("b", class.Name).Obj(), pod)
		Eventually(admin.Standing(ctx, pod)).Should(HavePrefix(noVolume))
		Expect([]string{s.held(ctx, "a")(Default), s.held(ctx, "b")(Default)}).To(ConsistOf("", ""))
		s.phases(ctx, v1.VolumeAvailable, "here", "there")
	})

	It("goes where the volume of the one is that is bound at once, with the other's there", minutes, func(ctx SpecContext) {
		s := aScene(ctx, 2)
		waits, once := fixture.StorageClass(s.name+"-waits", ""), fixture.ImmediateStorageClass(s.name+"-once", "")
		s.create(ctx, waits, once, s.volume("fixed", once.Name, 1).Obj(),
			s.volume("far", waits.Name, 0).Obj(), s.volume("near", waits.Name, 1).Capacity("9Gi").Obj())
		s.phases(ctx, v1.VolumeAvailable, "fixed", "far", "near")
		pod := s.pod("web", "a", "b")
		s.create(ctx, s.claim("a", waits.Name).Obj(), s.claim("b", once.Name).Obj(), pod)
		Eventually(admin.Place(ctx, pod)).Should(Equal("n1"))
		Expect([]string{s.held(ctx, "a")(Default), s.held(ctx, "b")(Default)}).To(Equal([]string{s.name + "-near", s.name + "-fixed"}))
		s.phases(ctx, v1.VolumeAvailable, "far")
	})
})

var _ = DescribeTable("A pod whose volume is on a node that the pod does not select is told so:",
	func(ctx SpecContext, select1 func(*v1.Pod)) {
		s := aScene(ctx, 3)
		class := fixture.ImmediateStorageClass(s.name, "")
		s.create(ctx, class, s.volume("v", class.Name, 0).Obj(), s.claim("data", class.Name).Obj())
		s.phases(ctx, v1.VolumeBound, "v")
		pod := s.pod("web", "data")
		select1(pod)
		s.create(ctx, pod)
		Eventually(admin.Standing(ctx, pod)).Should(And(HavePrefix("False Unschedulable: 0/3 nodes are available: "),
			ContainSubstring("1 node(s) didn't match PersistentVolume's node affinity"), ContainSubstring("2 node(s) didn't match Pod's node affinity/selector")))
	},
	Entry("by affinity", minutes, func(pod *v1.Pod) {
		pod.Spec.Affinity = fixture.Pod("any").RequireNodeAffinity(fixture.NodeSelectorTerm(fixture.In(v1.LabelHostname, "n1"))).Obj().Spec.Affinity
	}),
	Entry("by selector", minutes, func(pod *v1.Pod) { pod.Spec.NodeSelector = map[string]string{v1.LabelHostname: "n1"} }),
)
