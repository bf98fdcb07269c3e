package volumes

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/fixture"
)

// Unschedulable pods are requeued by events only.
var _ = DescribeTable("A pod that is unschedulable because of its volumes is bound when",
	func(ctx SpecContext, setUp func(ctx context.Context, env testEnv) (message string, change func())) {
		env := newTestEnv(ctx, 2)
		message, change := setUp(ctx, env)
		pod := env.pod("web", "data")
		env.create(ctx, pod)
		Eventually(admin.PodScheduled(ctx, pod)).Should(And(HavePrefix("False Unschedulable: 0/2 nodes are available: "), ContainSubstring(message)))
		defer env.runProvisioner(ctx, env.provisionOnSelectedNode)()
		change()
		Eventually(admin.NodeName(ctx, pod)).ShouldNot(BeEmpty())
	},
	Entry("the volume that its claim names is created", specTimeout, func(ctx context.Context, env testEnv) (string, func()) {
		class := fixture.ImmediateStorageClass(env.namespace, "")
		v := env.volume("v", class.Name, 1).Obj()
		env.create(ctx, class, env.claim("data", class.Name).Mutate(func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeName = v.Name }).Obj())
		return "pod has unbound immediate PersistentVolumeClaims", func() { env.create(ctx, v) }
	}),
	Entry("its volume gets the label of another zone", specTimeout, func(ctx context.Context, env testEnv) (string, func()) {
		for i := range 2 {
			apitest.Change(ctx, admin, fixture.Node(fmt.Sprint("n", i)).Obj(), func(n *v1.Node) { n.Labels[v1.LabelTopologyZone] = "here" })
		}
		// A node without a label for zones reaches volumes of each zone.
		known := env.pod("known")
		known.Spec.NodeSelector = map[string]string{v1.LabelHostname: "n1", v1.LabelTopologyZone: "here"}
		env.create(ctx, known)
		admin.ExpectBound(ctx, known)
		admin.Remove(ctx, known)
		class := fixture.ImmediateStorageClass(env.namespace, "")
		v := fixture.Volume(env.namespace+"-v", class.Name).Mutate(func(v *v1.PersistentVolume) { v.Labels = map[string]string{v1.LabelTopologyZone: "elsewhere"} }).Obj()
		env.create(ctx, class, v, env.claim("data", class.Name).Obj())
		env.expectPhases(ctx, v1.VolumeBound, "v")
		return "node(s) had no available volume zone", func() {
			apitest.Change(ctx, admin, v, func(v *v1.PersistentVolume) { v.Labels[v1.LabelTopologyZone] = "here" })
		}
	}),
	Entry("a volume gets the label that its claim selects", specTimeout, func(ctx context.Context, env testEnv) (string, func()) {
		class := fixture.StorageClass(env.namespace, "")
		v := env.volume("v", class.Name, 1).Obj()
		env.create(ctx, class, v, env.claim("data", class.Name).Mutate(func(c *v1.PersistentVolumeClaim) { c.Spec.Selector = fixture.LabelSelector("tier", "gold") }).Obj())
		env.expectPhases(ctx, v1.VolumeAvailable, "v")
		return "node(s) didn't find available persistent volumes to bind", func() {
			apitest.Change(ctx, admin, v, func(v *v1.PersistentVolume) { v.Labels = map[string]string{"tier": "gold"} })
		}
	}),
	Entry("a node that reaches its volume is created", specTimeout, func(ctx context.Context, env testEnv) (string, func()) {
		class := fixture.ImmediateStorageClass(env.namespace, "")
		env.create(ctx, class, env.volume("v", class.Name, 7).Obj(), env.claim("data", class.Name).Obj())
		env.expectPhases(ctx, v1.VolumeBound, "v")
		return "node(s) didn't match PersistentVolume's node affinity", func() { env.create(ctx, fixture.Node("n7").Capacity("pods", "10").Obj()) }
	}),
	Entry("a node gets the label by which it reaches its volume", specTimeout, func(ctx context.Context, env testEnv) (string, func()) {
		class := fixture.ImmediateStorageClass(env.namespace, "")
		env.create(ctx, class, fixture.Volume(env.namespace+"-v", class.Name).NodeAffinity("rack", "r1").Obj(), env.claim("data", class.Name).Obj())
		env.expectPhases(ctx, v1.VolumeBound, "v")
		return "node(s) didn't match PersistentVolume's node affinity", func() {
			apitest.Change(ctx, admin, fixture.Node("n1").Obj(), func(n *v1.Node) { n.Labels["rack"] = "r1" })
		}
	}),
	Entry("its claim's class allows existing nodes", specTimeout, func(ctx context.Context, env testEnv) (string, func()) {
		class := fixture.StorageClass(env.namespace, testProvisioner)
		allow := func(node string) {
			class.AllowedTopologies = []v1.TopologySelectorTerm{{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{{Key: v1.LabelHostname, Values: []string{node}}}}}
		}
		allow("n7")
		env.create(ctx, class, env.claim("data", class.Name).Obj())
		return "node(s) didn't find available persistent volumes to bind", func() {
			apitest.Change(ctx, admin, class, func(*storagev1.StorageClass) { allow("n1") })
		}
	}),
	Entry("its driver has more capacity", specTimeout, func(ctx context.Context, env testEnv) (string, func()) {
		class := env.createDriver(ctx, "capacity", true)
		env.waitForDriver(ctx, class)
		capacity := env.createCapacity(ctx, class, "n1", "4Gi")
		env.create(ctx, env.claim("data", class).Requests("5Gi").Obj())
		return "node(s) did not have enough free storage", func() {
			more := resource.MustParse("6Gi")
			apitest.Change(ctx, admin, capacity, func(c *storagev1.CSIStorageCapacity) { c.Capacity = &more })
		}
	}),
	Entry("its driver no longer publishes its capacity", specTimeout, func(ctx context.Context, env testEnv) (string, func()) {
		class := env.createDriver(ctx, "capacity", true)
		env.waitForDriver(ctx, class)
		env.create(ctx, env.claim("data", class).Requests("5Gi").Obj())
		return "node(s) did not have enough free storage", func() {
			driver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: env.namespace + ".capacity"}}
			apitest.Change(ctx, admin, driver, func(d *storagev1.CSIDriver) { d.Spec.StorageCapacity = new(false) })
		}
	}),
	Entry("the pod that uses its ReadWriteOncePod claim is deleted", specTimeout, func(ctx context.Context, env testEnv) (string, func()) {
		class := fixture.StorageClass(env.namespace, "")
		env.create(ctx, class, env.volume("v", class.Name, 1).Mutate(setReadWriteOncePod).Obj(),
			env.claim("data", class.Name).Mutate(func(c *v1.PersistentVolumeClaim) { c.Spec.AccessModes = readWriteOncePod }).Obj())
		first := env.pod("first", "data")
		env.create(ctx, first)
		Eventually(admin.NodeName(ctx, first)).Should(Equal("n1"))
		return "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod", func() { deletePod(ctx, first) }
	}),
	Entry("the pod with the only volume that its driver attaches to a node is deleted", specTimeout, func(ctx context.Context, env testEnv) (string, func()) {
		first, _ := env.fillNode(ctx)
		return "node(s) exceed max volume count", func() { deletePod(ctx, first) }
	}),
	Entry("its driver attaches more volumes to a node", specTimeout, func(ctx context.Context, env testEnv) (string, func()) {
		_, csi := env.fillNode(ctx)
		return "node(s) exceed max volume count", func() {
			apitest.Change(ctx, admin, csi, func(n *storagev1.CSINode) { n.Spec.Drivers = csiDrivers(env.namespace+".limited", 2) })
		}
	}),
)

var readWriteOncePod = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}

func setReadWriteOncePod(v *v1.PersistentVolume) { v.Spec.AccessModes = readWriteOncePod }

// fillNode creates a driver that attaches one volume to n1, where the first pod has one,
// and has no limit for n0. The claim data has a volume on n1, too.
func (env testEnv) fillNode(ctx context.Context) (first *v1.Pod, csi *storagev1.CSINode) {
	GinkgoHelper()
	driver, class := env.namespace+".limited", fixture.ImmediateStorageClass(env.namespace, "")
	csi = &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: storagev1.CSINodeSpec{Drivers: csiDrivers(driver, 1)}}
	of := func(name string) *v1.PersistentVolume {
		return env.volume(name, class.Name, 1).Mutate(func(v *v1.PersistentVolume) {
			v.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: v.Name}}
		}).Obj()
	}
	env.create(ctx, class, csi, of("a"), of("b"), env.claim("first", class.Name).Obj(), env.claim("data", class.Name).Obj())
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(admin.Delete(ctx, csi))).To(Succeed()) })
	env.expectPhases(ctx, v1.VolumeBound, "a", "b")
	first = env.pod("first", "first")
	env.create(ctx, first)
	Eventually(admin.NodeName(ctx, first)).Should(Equal("n1"))
	return first, csi
}

func csiDrivers(driver string, most int32) []storagev1.CSINodeDriver {
	return []storagev1.CSINodeDriver{{Name: driver, NodeID: "n1", Allocatable: &storagev1.VolumeNodeResources{Count: &most}}}
}

// deletePod deletes a pod without grace period.
func deletePod(ctx context.Context, pod *v1.Pod) {
	GinkgoHelper()
	Expect(admin.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
}
