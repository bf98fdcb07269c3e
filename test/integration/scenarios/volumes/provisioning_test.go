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

var _ = DescribeTable("A pod with a claim whose volume is provisioned, and one with an existing volume, gets the node of that volume:",
	func(ctx SpecContext, class func(name, provisioner string) *storagev1.StorageClass, meant func(*v1.PersistentVolumeClaim, *v1.PersistentVolume)) {
		env := newTestEnv(ctx, 2)
		made, of := fixture.StorageClass(env.namespace+"-made", testProvisioner), class(env.namespace+"-there", "")
		claim, there := env.claim("b", of.Name).Obj(), env.volume("there", of.Name, 1).Obj()
		meant(claim, there)
		env.create(ctx, made, of, there)
		env.expectPhases(ctx, v1.VolumeAvailable, "there")
		pod := env.pod("web", "a", "b")
		env.create(ctx, env.claim("a", made.Name).Obj(), claim, pod)
		defer env.runProvisioner(ctx, env.provisionOnSelectedNode)()
		Eventually(admin.NodeName(ctx, pod)).Should(Equal("n1"))
		Expect([]string{env.boundVolume(ctx, "a")(Default), env.boundVolume(ctx, "b")(Default)}).To(Equal([]string{env.namespace + "-made-for-a", there.Name}))
	},
	Entry("the class waits for the first consumer", specTimeout, fixture.StorageClass, func(*v1.PersistentVolumeClaim, *v1.PersistentVolume) {}),
	Entry("the volume names the claim, and the class is immediate", specTimeout, fixture.ImmediateStorageClass, volumeNamesClaim),
	Entry("the volume names the claim, and the class waits for the first consumer", specTimeout, fixture.StorageClass, volumeNamesClaim),
)

var _ = Describe("A pod with a claim whose volume is provisioned", func() {
	It("gets the node of the volume, when that is provisioned immediately without a selected node", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 2)
		class := fixture.ImmediateStorageClass(env.namespace, testProvisioner)
		pod := env.pod("web", "data")
		env.create(ctx, class, env.claim("data", class.Name).Obj(), pod)
		Eventually(admin.PodScheduled(ctx, pod)).Should(HavePrefix(unboundImmediate))
		defer env.runProvisioner(ctx, func(claim *v1.PersistentVolumeClaim) *v1.PersistentVolume {
			Expect(claim.Annotations).NotTo(HaveKey(volume.AnnSelectedNode))
			return env.provision(claim, "n1")
		})()
		Eventually(admin.NodeName(ctx, pod)).Should(Equal("n1"))
	})

	It("is pending when the class provisions on no existing node", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 2)
		class := fixture.StorageClass(env.namespace, testProvisioner)
		class.AllowedTopologies = []v1.TopologySelectorTerm{{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{{
			Key: v1.LabelHostname, Values: []string{"n7"},
		}}}}
		pod := env.pod("web", "data")
		env.create(ctx, class, env.claim("data", class.Name).Obj(), pod)
		Eventually(admin.PodScheduled(ctx, pod)).Should(HavePrefix(noVolume))
	})

	It("is pending while its driver has no capacity, and gets the node that has some", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 2)
		class := env.createDriver(ctx, "capacity", true)
		env.waitForDriver(ctx, class)
		defer env.runProvisioner(ctx, env.provisionOnSelectedNode)()
		pod := env.pod("web", "data")
		env.create(ctx, env.claim("data", class).Requests("5Gi").Obj(), pod)
		Eventually(admin.PodScheduled(ctx, pod)).Should(HavePrefix(noCapacity))
		Expect(env.boundVolume(ctx, "data")(Default)).To(BeEmpty())
		env.createCapacity(ctx, class, "n0", "4Gi")
		env.createCapacity(ctx, class, "n1", "6Gi")
		Eventually(admin.NodeName(ctx, pod)).Should(Equal("n1"))
	})

	It("gets any node when its driver does not publish its capacity", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 1)
		class := fixture.StorageClass(env.namespace, testProvisioner)
		env.create(ctx, class)
		env.createCapacity(ctx, class.Name, "n0", "1Gi")
		defer env.runProvisioner(ctx, env.provisionOnSelectedNode)()
		pod := env.pod("web", "data")
		env.create(ctx, env.claim("data", class.Name).Requests("5Gi").Obj(), pod)
		Eventually(admin.NodeName(ctx, pod)).Should(Equal("n0"))
	})
})

var _ = DescribeTable("A pod whose claim's class does not exist is tried again when it is created:",
	func(ctx SpecContext, provisioner string) {
		env := newTestEnv(ctx, 2)
		pod := env.pod("web", "data")
		env.create(ctx, env.claim("data", env.namespace).Obj(), pod)
		Eventually(admin.PodScheduled(ctx, pod)).Should(HavePrefix(unboundImmediate))
		defer env.runProvisioner(ctx, env.provisionOnSelectedNode)()
		env.create(ctx, fixture.StorageClass(env.namespace, provisioner))
		if provisioner == "" {
			env.create(ctx, env.volume("v", env.namespace, 1).Obj())
		}
		Eventually(admin.NodeName(ctx, pod)).ShouldNot(BeEmpty())
	},
	Entry("its volumes are provisioned", specTimeout, testProvisioner),
	Entry("its volumes exist", specTimeout, ""),
)

// The conditions of pods.
const (
	noVolume         = "False Unschedulable: 0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind."
	unboundImmediate = "False Unschedulable: 0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims."
	noCapacity       = "False Unschedulable: 0/2 nodes are available: 2 node(s) did not have enough free storage."
)

// createDriver creates a CSIDriver, which publishes its capacity or does not, and a class
// of it.
func (env testEnv) createDriver(ctx context.Context, name string, publishes bool) (class string) {
	GinkgoHelper()
	driver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: env.namespace + "." + name}, Spec: storagev1.CSIDriverSpec{StorageCapacity: &publishes}}
	of := fixture.StorageClass(env.namespace+"-"+name, driver.Name)
	env.create(ctx, driver, of)
	DeferCleanup(func(ctx SpecContext) { Expect(admin.Delete(ctx, driver)).To(Succeed()) })
	return of.Name
}

// createCapacity publishes the capacity of a node for a class.
func (env testEnv) createCapacity(ctx context.Context, class, node, size string) *storagev1.CSIStorageCapacity {
	GinkgoHelper()
	quantity := resource.MustParse(size)
	capacity := &storagev1.CSIStorageCapacity{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, GenerateName: "capacity-"}, StorageClassName: class,
		NodeTopology: fixture.LabelSelector(v1.LabelHostname, node), Capacity: &quantity,
	}
	env.create(ctx, capacity)
	return capacity
}

// waitForDriver waits until pods are rejected since the class's driver, as Berth knows
// then, has no capacity. Earlier pods have a node selected, and are left there.
func (env testEnv) waitForDriver(ctx context.Context, class string) {
	GinkgoHelper()
	for n := 0; ; n++ {
		claim := env.claim(fmt.Sprint("driver-known-", class, n), class).Obj()
		pod := env.pod(claim.Name, claim.Name)
		env.create(ctx, claim, pod)
		var rejected string
		Eventually(func(g Gomega) string {
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(claim), claim)).To(Succeed())
			if rejected = admin.PodScheduled(ctx, pod)(g); !strings.HasPrefix(rejected, noCapacity) {
				rejected = "" // Berth does not know all nodes yet
			}
			return rejected + claim.Annotations[volume.AnnSelectedNode]
		}).ShouldNot(BeEmpty())
		if rejected != "" {
			return
		}
	}
}

// Each node has two volumes, and those of n2 are the largest.
var sizes = [3][2]string{{"100Gi", "50Gi"}, {"100Gi", "100Gi"}, {"200Gi", "200Gi"}}

var _ = DescribeTable("Among nodes with volumes for a pod the one with the largest volumes is best:",
	func(ctx SpecContext, zonal bool, classes []string, requests ...string) {
		env := newTestEnv(ctx, 0)
		for i := range sizes {
			env.create(ctx, fixture.Node(fmt.Sprint("n", i)).Zone(fmt.Sprint("z", i)).Label(v1.LabelTopologyRegion, fmt.Sprint("r", i)).Capacity("pods", "10").Obj())
		}
		for _, class := range classes {
			env.create(ctx, fixture.StorageClass(env.namespace+"-"+class, ""))
		}
		var volumes []string
		for i, both := range sizes {
			for j, size := range both {
				name := fmt.Sprintf("v%d-%d", i, j)
				v := env.volume(name, env.namespace+"-"+classes[j%len(classes)], i).Capacity(size)
				if zonal {
					v = v.NodeAffinity(v1.LabelTopologyZone, fmt.Sprint("z", i)).Mutate(inRegion(fmt.Sprint("r", i)))
				}
				env.create(ctx, v.Obj())
				volumes = append(volumes, name)
			}
		}
		env.expectPhases(ctx, v1.VolumeAvailable, volumes...)
		env.waitForVolumes(ctx)
		var claims []string
		for i, size := range requests {
			claims = append(claims, fmt.Sprint("c", i))
			env.create(ctx, env.claim(claims[i], env.namespace+"-"+classes[i%len(classes)]).Requests(size).Obj())
		}
		pod := env.pod("web", claims...)
		env.create(ctx, pod)
		Eventually(admin.NodeName(ctx, pod)).Should(Equal("n2"))
	},
	Entry("for one claim", specTimeout, false, []string{"ssd"}, "20Gi"),
	Entry("for two claims", specTimeout, false, []string{"ssd"}, "80Gi", "80Gi"),
	Entry("for two claims of two classes", specTimeout, false, []string{"ssd", "hdd"}, "50Gi", "50Gi"),
	Entry("for two claims of two classes, with volumes that a zone reaches", specTimeout, true, []string{"ssd", "hdd"}, "50Gi", "50Gi"),
)

func inRegion(region string) func(*v1.PersistentVolume) {
	return func(volume *v1.PersistentVolume) {
		term := &volume.Spec.NodeAffinity.Required.NodeSelectorTerms[0]
		term.MatchExpressions = append(term.MatchExpressions, fixture.In(v1.LabelTopologyRegion, region))
	}
}

var _ = Describe("Among nodes on which a volume can be provisioned", func() {
	It("the one is best where the claim's driver has the most capacity", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 2)
		a, b := env.createDriver(ctx, "a", true), env.createDriver(ctx, "b", true)
		env.waitForDriver(ctx, a)
		env.waitForDriver(ctx, b)
		// In this order the nodes that become feasible first are the right ones.
		env.createCapacity(ctx, a, "n0", "12Gi")
		env.createCapacity(ctx, b, "n1", "12Gi")
		env.createCapacity(ctx, a, "n1", "6Gi")
		env.createCapacity(ctx, b, "n0", "6Gi")
		ofA, ofB := env.pod("of-a", "a"), env.pod("of-b", "b")
		env.create(ctx, env.claim("a", a).Requests("5Gi").Obj(), env.claim("b", b).Requests("5Gi").Obj(), ofA, ofB)
		defer env.runProvisioner(ctx, env.provisionOnSelectedNode)()
		Eventually(admin.NodeName(ctx, ofA)).Should(Equal("n0"))
		Eventually(admin.NodeName(ctx, ofB)).Should(Equal("n1"))
	})

	It("the capacity of one driver does not count for the claims of another that publishes none", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 2)
		publishing, silent := env.createDriver(ctx, "publishing", true), env.createDriver(ctx, "silent", false)
		env.waitForDriver(ctx, publishing)
		env.createCapacity(ctx, publishing, "n0", "12Gi")
		ofOne, ofOther := env.pod("of-one", "one"), env.pod("of-other", "other")
		ofOther.Spec.NodeSelector = map[string]string{v1.LabelHostname: "n1"}
		env.create(ctx, env.claim("one", publishing).Requests("5Gi").Obj(), env.claim("other", silent).Requests("5Gi").Obj(), ofOne, ofOther)
		defer env.runProvisioner(ctx, env.provisionOnSelectedNode)()
		Eventually(admin.NodeName(ctx, ofOne)).Should(Equal("n0"))
		Eventually(admin.NodeName(ctx, ofOther)).Should(Equal("n1"))
	})
})
