package volumes

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/support/fixture"
)

var _ = DescribeTable("A pod with a claim for which a volume is made, and one for which there is one, goes where that is:",
	func(ctx SpecContext, class func(name, provisioner string) *storagev1.StorageClass, meant func(*v1.PersistentVolumeClaim, *v1.PersistentVolume)) {
		s := aScene(ctx, 2)
		made, of := fixture.StorageClass(s.name+"-made", played), class(s.name+"-there", "")
		claim, there := s.claim("b", of.Name).Obj(), s.volume("there", of.Name, 1).Obj()
		meant(claim, there)
		s.create(ctx, made, of, there)
		s.phases(ctx, v1.VolumeAvailable, "there")
		pod := s.pod("web", "a", "b")
		s.create(ctx, s.claim("a", made.Name).Obj(), claim, pod)
		defer s.provisioner(ctx, s.whereChosen)()
		Eventually(admin.Place(ctx, pod)).Should(Equal("n1"))
		Expect([]string{s.held(ctx, "a")(Default), s.held(ctx, "b")(Default)}).To(Equal([]string{s.name + "-made-for-a", there.Name}))
	},
	Entry("it waits", minutes, fixture.StorageClass, func(*v1.PersistentVolumeClaim, *v1.PersistentVolume) {}),
	Entry("its volume names it, and it is bound at once", minutes, fixture.ImmediateStorageClass, itNamesTheClaim),
	Entry("its volume names it, and it waits", minutes, fixture.StorageClass, itNamesTheClaim),
)

var _ = Describe("A pod with a claim for which a volume is made", func() {
	It("goes where it was made, when that is done at once and for no node", minutes, func(ctx SpecContext) {
		s := aScene(ctx, 2)
		class := fixture.ImmediateStorageClass(s.name, played)
		pod := s.pod("web", "data")
		s.create(ctx, class, s.claim("data", class.Name).Obj(), pod)
		Eventually(admin.Standing(ctx, pod)).Should(HavePrefix(unboundImmediate))
		defer s.provisioner(ctx, func(claim *v1.PersistentVolumeClaim) *v1.PersistentVolume {
			Expect(claim.Annotations).NotTo(HaveKey(volume.AnnSelectedNode))
			return s.made(claim, "n1")
		})()
		Eventually(admin.Place(ctx, pod)).Should(Equal("n1"))
	})

	It("waits when its class makes none where there are nodes", minutes, func(ctx SpecContext) {
		s := aScene(ctx, 2)
		class := fixture.StorageClass(s.name, played)
		class.AllowedTopologies = []v1.TopologySelectorTerm{{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{{
			Key: v1.LabelHostname, Values: []string{"n7"},
		}}}}
		pod := s.pod("web", "data")
		s.create(ctx, class, s.claim("data", class.Name).Obj(), pod)
		Eventually(admin.Standing(ctx, pod)).Should(HavePrefix(noVolume))
	})

	It("waits while its driver has no room for it, and goes where there is some", minutes, func(ctx SpecContext) {
		s := aScene(ctx, 2)
		class := s.ofDriver(ctx, "room", true)
		s.untilHeardOf(ctx, class)
		defer s.provisioner(ctx, s.whereChosen)()
		pod := s.pod("web", "data")
		s.create(ctx, s.claim("data", class).Requests("5Gi").Obj(), pod)
		Eventually(admin.Standing(ctx, pod)).Should(HavePrefix(noRoom))
		Expect(s.held(ctx, "data")(Default)).To(BeEmpty())
		s.capacity(ctx, class, "n0", "4Gi")
		s.capacity(ctx, class, "n1", "6Gi")
		Eventually(admin.Place(ctx, pod)).Should(Equal("n1"))
	})

	It("goes anywhere when its driver does not say what room it has, whoever else does", minutes, func(ctx SpecContext) {
		s := aScene(ctx, 1)
		class := fixture.StorageClass(s.name, played)
		s.create(ctx, class)
		s.capacity(ctx, class.Name, "n0", "1Gi")
		defer s.provisioner(ctx, s.whereChosen)()
		pod := s.pod("web", "data")
		s.create(ctx, s.claim("data", class.Name).Requests("5Gi").Obj(), pod)
		Eventually(admin.Place(ctx, pod)).Should(Equal("n0"))
	})
})

var _ = DescribeTable("A pod whose claim's class is not there is tried again when it comes:",
	func(ctx SpecContext, provisioner string) {
		s := aScene(ctx, 2)
		pod := s.pod("web", "data")
		s.create(ctx, s.claim("data", s.name).Obj(), pod)
		Eventually(admin.Standing(ctx, pod)).Should(HavePrefix(unboundImmediate))
		defer s.provisioner(ctx, s.whereChosen)()
		s.create(ctx, fixture.StorageClass(s.name, provisioner))
		if provisioner == "" {
			s.create(ctx, s.volume("v", s.name, 1).Obj())
		}
		Eventually(admin.Place(ctx, pod)).ShouldNot(BeEmpty())
	},
	Entry("for its claims volumes are made", minutes, played),
	Entry("its claims take the volumes that there are", minutes, ""),
)

// What a pod is told of its claims.
const (
	noVolume         = "False Unschedulable: 0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind."
	unboundImmediate = "False Unschedulable: 0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims."
	noRoom           = "False Unschedulable: 0/2 nodes are available: 2 node(s) did not have enough free storage."
)

// ofDriver creates a driver of the scene's own, which says what room it has, or
// does not, and a class of that.
func (s scene) ofDriver(ctx context.Context, name string, says bool) (class string) {
	GinkgoHelper()
	driver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: s.name + "." + name}, Spec: storagev1.CSIDriverSpec{StorageCapacity: &says}}
	of := fixture.StorageClass(s.name+"-"+name, driver.Name)
	s.create(ctx, driver, of)
	DeferCleanup(func(ctx SpecContext) { Expect(admin.Delete(ctx, driver)).To(Succeed()) })
	return of.Name
}

// capacity says how much room there is on a node for claims of a class.
func (s scene) capacity(ctx context.Context, class, node, size string) *storagev1.CSIStorageCapacity {
	GinkgoHelper()
	room := resource.MustParse(size)
	told := &storagev1.CSIStorageCapacity{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.name, GenerateName: "room-"}, StorageClassName: class,
		NodeTopology: fixture.LabelSelector(v1.LabelHostname, node), Capacity: &room,
	}
	s.create(ctx, told)
	return told
}

// untilHeardOf waits until pods are held to what room a class's driver says that
// it has, which is none yet. Those that come before Berth has heard of the driver
// have a node chosen for them, and are left there.
func (s scene) untilHeardOf(ctx context.Context, class string) {
	GinkgoHelper()
	for n := 0; ; n++ {
		claim := s.claim(fmt.Sprint("bell-", class, n), class).Obj()
		pod := s.pod(claim.Name, claim.Name)
		s.create(ctx, claim, pod)
		var told string
		Eventually(func(g Gomega) string {
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(claim), claim)).To(Succeed())
			if told = admin.Standing(ctx, pod)(g); !strings.HasPrefix(told, noRoom) {
				told = "" // nor has Berth heard of all nodes yet
			}
			return told + claim.Annotations[volume.AnnSelectedNode]
		}).ShouldNot(BeEmpty())
		if told != "" {
			return
		}
	}
}
