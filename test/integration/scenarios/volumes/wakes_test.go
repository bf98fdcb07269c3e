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

// A refused pod is left to the events: nothing is tried again for its age alone.
var _ = DescribeTable("A pod that its volumes keep waiting is bound when",
	func(ctx SpecContext, stage func(ctx context.Context, s scene) (told string, change func())) {
		s := aScene(ctx, 2)
		told, change := stage(ctx, s)
		pod := s.pod("web", "data")
		s.create(ctx, pod)
		Eventually(admin.Standing(ctx, pod)).Should(And(HavePrefix("False Unschedulable: 0/2 nodes are available: "), ContainSubstring(told)))
		defer s.provisioner(ctx, s.whereChosen)()
		change()
		Eventually(admin.Place(ctx, pod)).ShouldNot(BeEmpty())
	},
	Entry("the volume comes that its claim names", minutes, func(ctx context.Context, s scene) (string, func()) {
		class := fixture.ImmediateStorageClass(s.name, "")
		v := s.volume("v", class.Name, 1).Obj()
		s.create(ctx, class, s.claim("data", class.Name).Mutate(func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeName = v.Name }).Obj())
		return "pod has unbound immediate PersistentVolumeClaims", func() { s.create(ctx, v) }
	}),
	Entry("its volume is in another zone from now on", minutes, func(ctx context.Context, s scene) (string, func()) {
		for i := range 2 {
			apitest.Change(ctx, admin, fixture.Node(fmt.Sprint("n", i)).Obj(), func(n *v1.Node) { n.Labels[v1.LabelTopologyZone] = "here" })
		}
		class := fixture.ImmediateStorageClass(s.name, "")
		v := fixture.Volume(s.name+"-v", class.Name).Mutate(func(v *v1.PersistentVolume) { v.Labels = map[string]string{v1.LabelTopologyZone: "elsewhere"} }).Obj()
		s.create(ctx, class, v, s.claim("data", class.Name).Obj())
		s.phases(ctx, v1.VolumeBound, "v")
		return "node(s) had no available volume zone", func() {
			apitest.Change(ctx, admin, v, func(v *v1.PersistentVolume) { v.Labels[v1.LabelTopologyZone] = "here" })
		}
	}),
	Entry("a volume gets the label that its claim selects", minutes, func(ctx context.Context, s scene) (string, func()) {
		class := fixture.StorageClass(s.name, "")
		v := s.volume("v", class.Name, 1).Obj()
		s.create(ctx, class, v, s.claim("data", class.Name).Mutate(func(c *v1.PersistentVolumeClaim) { c.Spec.Selector = fixture.LabelSelector("tier", "gold") }).Obj())
		s.phases(ctx, v1.VolumeAvailable, "v")
		return "node(s) didn't find available persistent volumes to bind", func() {
			apitest.Change(ctx, admin, v, func(v *v1.PersistentVolume) { v.Labels = map[string]string{"tier": "gold"} })
		}
	}),
	Entry("the node comes that reaches its volume", minutes, func(ctx context.Context, s scene) (string, func()) {
		class := fixture.ImmediateStorageClass(s.name, "")
		s.create(ctx, class, s.volume("v", class.Name, 7).Obj(), s.claim("data", class.Name).Obj())
		s.phases(ctx, v1.VolumeBound, "v")
		return "node(s) didn't match PersistentVolume's node affinity", func() { s.create(ctx, fixture.Node("n7").Capacity("pods", "10").Obj()) }
	}),
	Entry("a node gets the label by which it reaches its volume", minutes, func(ctx context.Context, s scene) (string, func()) {
		class := fixture.ImmediateStorageClass(s.name, "")
		s.create(ctx, class, fixture.Volume(s.name+"-v", class.Name).NodeAffinity("rack", "r1").Obj(), s.claim("data", class.Name).Obj())
		s.phases(ctx, v1.VolumeBound, "v")
		return "node(s) didn't match PersistentVolume's node affinity", func() {
			apitest.Change(ctx, admin, fixture.Node("n1").Obj(), func(n *v1.Node) { n.Labels["rack"] = "r1" })
		}
	}),
	Entry("its claim's class allows nodes that there are", minutes, func(ctx context.Context, s scene) (string, func()) {
		class := fixture.StorageClass(s.name, played)
		allow := func(node string) {
			class.AllowedTopologies = []v1.TopologySelectorTerm{{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{{Key: v1.LabelHostname, Values: []string{node}}}}}
		}
		allow("n7")
		s.create(ctx, class, s.claim("data", class.Name).Obj())
		return "node(s) didn't find available persistent volumes to bind", func() {
			apitest.Change(ctx, admin, class, func(*storagev1.StorageClass) { allow("n1") })
		}
	}),
	Entry("its driver has more room", minutes, func(ctx context.Context, s scene) (string, func()) {
		class := s.ofDriver(ctx, "room", true)
		s.untilHeardOf(ctx, class)
		room := s.capacity(ctx, class, "n1", "4Gi")
		s.create(ctx, s.claim("data", class).Requests("5Gi").Obj())
		return "node(s) did not have enough free storage", func() {
			more := resource.MustParse("6Gi")
			apitest.Change(ctx, admin, room, func(c *storagev1.CSIStorageCapacity) { c.Capacity = &more })
		}
	}),
	Entry("its driver says no more what room it has", minutes, func(ctx context.Context, s scene) (string, func()) {
		class := s.ofDriver(ctx, "room", true)
		s.untilHeardOf(ctx, class)
		s.create(ctx, s.claim("data", class).Requests("5Gi").Obj())
		return "node(s) did not have enough free storage", func() {
			driver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: s.name + ".room"}}
			apitest.Change(ctx, admin, driver, func(d *storagev1.CSIDriver) { d.Spec.StorageCapacity = new(false) })
		}
	}),
	Entry("the pod goes that has its claim to itself", minutes, func(ctx context.Context, s scene) (string, func()) {
		class := fixture.StorageClass(s.name, "")
		s.create(ctx, class, s.volume("v", class.Name, 1).Mutate(alone).Obj(),
			s.claim("data", class.Name).Mutate(func(c *v1.PersistentVolumeClaim) { c.Spec.AccessModes = oneAtATime }).Obj())
		first := s.pod("first", "data")
		s.create(ctx, first)
		Eventually(admin.Place(ctx, first)).Should(Equal("n1"))
		return "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod", func() { gone(ctx, first) }
	}),
	Entry("the pod goes that has the only volume which its driver attaches to a node", minutes, func(ctx context.Context, s scene) (string, func()) {
		first, _ := s.full(ctx)
		return "node(s) exceed max volume count", func() { gone(ctx, first) }
	}),
	Entry("its driver attaches more volumes to a node", minutes, func(ctx context.Context, s scene) (string, func()) {
		_, csi := s.full(ctx)
		return "node(s) exceed max volume count", func() {
			apitest.Change(ctx, admin, csi, func(n *storagev1.CSINode) { n.Spec.Drivers = attaching(s.name+".few", 2) })
		}
	}),
)

var oneAtATime = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}

func alone(v *v1.PersistentVolume) { v.Spec.AccessModes = oneAtATime }

// full has a driver of which n0 and n1 may each attach one volume, of which n1
// has one, and n0 is not ready for any; the claim data is for another, on n1.
func (s scene) full(ctx context.Context) (first *v1.Pod, csi *storagev1.CSINode) {
	GinkgoHelper()
	driver, class := s.name+".few", fixture.ImmediateStorageClass(s.name, "")
	csi = &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: storagev1.CSINodeSpec{Drivers: attaching(driver, 1)}}
	of := func(name string) *v1.PersistentVolume {
		return s.volume(name, class.Name, 1).Mutate(func(v *v1.PersistentVolume) {
			v.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: v.Name}}
		}).Obj()
	}
	s.create(ctx, class, csi, of("a"), of("b"), s.claim("theirs", class.Name).Obj(), s.claim("data", class.Name).Obj())
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(admin.Delete(ctx, csi))).To(Succeed()) })
	s.phases(ctx, v1.VolumeBound, "a", "b")
	first = s.pod("first", "theirs")
	s.create(ctx, first)
	Eventually(admin.Place(ctx, first)).Should(Equal("n1"))
	return first, csi
}

func attaching(driver string, most int32) []storagev1.CSINodeDriver {
	return []storagev1.CSINodeDriver{{Name: driver, NodeID: "n1", Allocatable: &storagev1.VolumeNodeResources{Count: &most}}}
}

// gone deletes a pod at once.
func gone(ctx context.Context, pod *v1.Pod) {
	GinkgoHelper()
	Expect(admin.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
}
