package volumes

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/support/fixture"
)

var _ = Describe("A pod with a claim that waits for its first consumer", func() {
	It("gets the smallest volume that is large enough, and the node of it", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 3)
		env.create(ctx, fixture.StorageClass("static", ""),
			env.volume("large", "static", 2).Capacity("9Gi").Obj(), env.volume("fitting", "static", 2).Capacity("5Gi").Obj(),
			env.volume("small", "static", 1).Capacity("1Gi").Obj(), env.volume("other", "another", 0).Capacity("5Gi").Obj())
		env.expectAvailable(ctx, 4)
		env.waitForVolumes(ctx)
		pod := env.pod("web", "data")
		env.create(ctx, env.claim("data", "static").Requests("4Gi").Obj(), pod)
		Eventually(admin.NodeName(ctx, pod)).Should(Equal("n2"))
		Expect(env.boundVolume(ctx, "data")(Default)).To(Equal(env.namespace + "-fitting"))
	})

	It("is pending while there is no volume, and is bound when one is created", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 2)
		pod := env.pod("web", "data")
		env.create(ctx, fixture.StorageClass("late", ""), env.claim("data", "late").Obj(), pod)
		Eventually(admin.PodScheduled(ctx, pod)).Should(HavePrefix(
			"False Unschedulable: 0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind."))
		env.create(ctx, env.volume("v", "late", 1).Obj())
		Eventually(admin.NodeName(ctx, pod)).Should(Equal("n1"))
	})

	It("has a volume provisioned for its node", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 2)
		env.create(ctx, fixture.StorageClass("provisioned", testProvisioner), env.claim("data", "provisioned").Obj())
		defer env.runProvisioner(ctx, env.provisionOnSelectedNode)()
		pod := env.pod("web", "data")
		env.create(ctx, pod)
		Eventually(admin.NodeName(ctx, pod)).ShouldNot(BeEmpty())
		Expect(env.boundVolume(ctx, "data")(Default)).To(Equal(env.namespace + "-made-for-data"))
	})

	It("is tried again when no volume can be provisioned for its node", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 2)
		env.create(ctx, fixture.StorageClass("fails-once", testProvisioner), env.claim("data", "fails-once").Obj())
		tries := 0
		defer env.runProvisioner(ctx, func(claim *v1.PersistentVolumeClaim) *v1.PersistentVolume {
			made := env.provisionOnSelectedNode(claim)
			if made == nil {
				return nil
			}
			if tries++; tries == 1 {
				remove := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, volume.AnnSelectedNode)
				Expect(admin.Patch(ctx, claim, client.RawPatch(types.MergePatchType, remove))).To(Succeed())
				return nil
			}
			return made
		})()
		pod := env.pod("web", "data")
		env.create(ctx, pod)
		Eventually(admin.NodeName(ctx, pod)).ShouldNot(BeEmpty())
		Expect(tries).To(Equal(2))
	})
})

var _ = Describe("A pod with a claim of an immediate class", func() {
	It("waits for the controller, and gets the node of its volume", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 2)
		pod := env.pod("web", "data")
		env.create(ctx, fixture.ImmediateStorageClass("immediate", volume.NotSupportedProvisioner), env.claim("data", "immediate").Obj(), pod)
		Eventually(admin.PodScheduled(ctx, pod)).Should(HavePrefix(
			"False Unschedulable: 0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims."))
		env.create(ctx, env.volume("v", "immediate", 1).Obj())
		Eventually(admin.NodeName(ctx, pod)).Should(Equal("n1"))
	})

	It("has a message when no node reaches its volume", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 2)
		pod := env.pod("web", "data")
		env.create(ctx, fixture.ImmediateStorageClass("remote", volume.NotSupportedProvisioner), env.volume("v", "remote", 7).Obj(), env.claim("data", "remote").Obj(), pod)
		Eventually(admin.PodScheduled(ctx, pod)).Should(HavePrefix(
			"False Unschedulable: 0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity."))
	})
})

var _ = Describe("A pod without its claim", func() {
	It("is pending until the claim is created", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 1)
		env.create(ctx, fixture.StorageClass("absent", ""), env.volume("v", "absent", 0).Obj())
		env.expectAvailable(ctx, 1)
		pod := env.pod("web", "data")
		env.create(ctx, pod)
		Eventually(admin.PodScheduled(ctx, pod)).Should(HavePrefix(
			`False Unschedulable: 0/1 nodes are available: persistentvolumeclaim "data" not found.`))
		env.create(ctx, env.claim("data", "absent").Obj())
		Eventually(admin.NodeName(ctx, pod)).Should(Equal("n0"))
	})
})

var _ = DescribeTable("A pod whose claim is reserved for one volume gets the node of it:",
	func(ctx SpecContext, class func(name, provisioner string) *storagev1.StorageClass, meant func(*v1.PersistentVolumeClaim, *v1.PersistentVolume)) {
		env := newTestEnv(ctx, 2)
		of := class(env.namespace, "")
		claim, volume := env.claim("data", of.Name).Obj(), env.volume("meant", of.Name, 1).Capacity("9Gi").Obj()
		meant(claim, volume)
		env.create(ctx, of, env.volume("fitting", of.Name, 0).Obj(), volume)
		env.expectPhases(ctx, v1.VolumeAvailable, "fitting", "meant")
		env.waitForVolumes(ctx)
		pod := env.pod("web", "data")
		env.create(ctx, claim, pod)
		Eventually(admin.NodeName(ctx, pod)).Should(Equal("n1"))
		Expect(env.boundVolume(ctx, "data")(Default)).To(Equal(volume.Name))
		env.expectPhases(ctx, v1.VolumeBound, "meant")
		env.expectPhases(ctx, v1.VolumeAvailable, "fitting")
	},
	Entry("the claim names the volume and is bound immediately", specTimeout, fixture.ImmediateStorageClass, claimNamesVolume),
	Entry("the claim names the volume and waits", specTimeout, fixture.StorageClass, claimNamesVolume),
	Entry("the volume names the claim, which is bound immediately", specTimeout, fixture.ImmediateStorageClass, volumeNamesClaim),
	Entry("the volume names the claim, which waits", specTimeout, fixture.StorageClass, volumeNamesClaim),
)

func claimNamesVolume(claim *v1.PersistentVolumeClaim, volume *v1.PersistentVolume) {
	claim.Spec.VolumeName = volume.Name
}

func volumeNamesClaim(claim *v1.PersistentVolumeClaim, volume *v1.PersistentVolume) {
	volume.Spec.ClaimRef = &v1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name}
}

var _ = Describe("A pod with two claims", func() {
	It("gets a node that has volumes for both", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 2)
		class := fixture.StorageClass(env.namespace, "")
		env.create(ctx, class, env.volume("alone", class.Name, 0).Obj(), env.volume("one", class.Name, 1).Obj(), env.volume("two", class.Name, 1).Obj())
		env.expectPhases(ctx, v1.VolumeAvailable, "alone", "one", "two")
		pod := env.pod("web", "a", "b")
		env.create(ctx, env.claim("a", class.Name).Obj(), env.claim("b", class.Name).Obj(), pod)
		Eventually(admin.NodeName(ctx, pod)).Should(Equal("n1"))
		Expect([]string{env.boundVolume(ctx, "a")(Default), env.boundVolume(ctx, "b")(Default)}).To(ConsistOf(env.namespace+"-one", env.namespace+"-two"))
		env.expectPhases(ctx, v1.VolumeAvailable, "alone")
	})

	It("is pending, and reserves neither, when no node has volumes for both", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 2)
		class := fixture.StorageClass(env.namespace, "")
		env.create(ctx, class, env.volume("here", class.Name, 0).Obj(), env.volume("there", class.Name, 1).Obj())
		env.expectPhases(ctx, v1.VolumeAvailable, "here", "there")
		pod := env.pod("web", "a", "b")
		env.create(ctx, env.claim("a", class.Name).Obj(), env.claim("b", class.Name).Obj(), pod)
		Eventually(admin.PodScheduled(ctx, pod)).Should(HavePrefix(noVolume))
		Expect([]string{env.boundVolume(ctx, "a")(Default), env.boundVolume(ctx, "b")(Default)}).To(ConsistOf("", ""))
		env.expectPhases(ctx, v1.VolumeAvailable, "here", "there")
	})

	It("gets the node of the volume that is bound immediately, and the volume there for the claim that waits", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 2)
		waits, once := fixture.StorageClass(env.namespace+"-waits", ""), fixture.ImmediateStorageClass(env.namespace+"-once", "")
		env.create(ctx, waits, once, env.volume("fixed", once.Name, 1).Obj(),
			env.volume("far", waits.Name, 0).Obj(), env.volume("near", waits.Name, 1).Capacity("9Gi").Obj())
		env.expectPhases(ctx, v1.VolumeAvailable, "fixed", "far", "near")
		pod := env.pod("web", "a", "b")
		env.create(ctx, env.claim("a", waits.Name).Obj(), env.claim("b", once.Name).Obj(), pod)
		Eventually(admin.NodeName(ctx, pod)).Should(Equal("n1"))
		Expect([]string{env.boundVolume(ctx, "a")(Default), env.boundVolume(ctx, "b")(Default)}).To(Equal([]string{env.namespace + "-near", env.namespace + "-fixed"}))
		env.expectPhases(ctx, v1.VolumeAvailable, "far")
	})
})

var _ = DescribeTable("A pod whose volume is on a node that the pod does not select has both reasons:",
	func(ctx SpecContext, select1 func(*v1.Pod)) {
		env := newTestEnv(ctx, 3)
		class := fixture.ImmediateStorageClass(env.namespace, "")
		env.create(ctx, class, env.volume("v", class.Name, 0).Obj(), env.claim("data", class.Name).Obj())
		env.expectPhases(ctx, v1.VolumeBound, "v")
		pod := env.pod("web", "data")
		select1(pod)
		env.create(ctx, pod)
		Eventually(admin.PodScheduled(ctx, pod)).Should(And(HavePrefix("False Unschedulable: 0/3 nodes are available: "),
			ContainSubstring("1 node(s) didn't match PersistentVolume's node affinity"), ContainSubstring("2 node(s) didn't match Pod's node affinity/selector")))
	},
	Entry("by affinity", specTimeout, func(pod *v1.Pod) {
		pod.Spec.Affinity = fixture.Pod("any").RequireNodeAffinity(fixture.NodeSelectorTerm(fixture.In(v1.LabelHostname, "n1"))).Obj().Spec.Affinity
	}),
	Entry("by selector", specTimeout, func(pod *v1.Pod) { pod.Spec.NodeSelector = map[string]string{v1.LabelHostname: "n1"} }),
)
