package volumebinding

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berthdev/berth/test/support/fixture"
)

const unresolvable = "UnschedulableAndUnresolvable: "

// driverWithCapacity returns a driver that publishes its storage capacity, or not.
func driverWithCapacity(counts bool) *storagev1.CSIDriver {
	return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "csi"}, Spec: storagev1.CSIDriverSpec{StorageCapacity: &counts}}
}

// storageCapacity returns the capacity that is left of class made for the nodes of a
// zone.
func storageCapacity(zone, capacity string) *storagev1.CSIStorageCapacity {
	amount := resource.MustParse(capacity)
	return &storagev1.CSIStorageCapacity{
		ObjectMeta: metav1.ObjectMeta{Namespace: "driver", Name: zone}, StorageClassName: "made", Capacity: &amount,
		NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelTopologyZone: zone}},
	}
}

func TestFilter(t *testing.T) {
	local, dynamic := fixture.StorageClass("local", ""), fixture.StorageClass("made", "csi")
	inZone := func(class *storagev1.StorageClass, zone string) *storagev1.StorageClass {
		class = class.DeepCopy()
		class.AllowedTopologies = []v1.TopologySelectorTerm{{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{
			{Key: v1.LabelTopologyZone, Values: []string{zone}},
		}}}
		return class
	}
	for name, c := range map[string]struct {
		objects    []runtime.Object
		pod        *v1.Pod
		status     string
		rejections map[string]string
	}{
		"a pod without claims is skipped": {pod: podWithClaims(), status: "Skip"},
		"a claim that does not exist":     {pod: podWithClaims("a"), status: unresolvable + `persistentvolumeclaim "a" not found`},
		"an ephemeral claim that does not exist yet": {
			pod: fixture.Pod("web").Mutate(func(pod *v1.Pod) {
				pod.Spec.Volumes = []v1.Volume{{Name: "x", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}}}
			}).Obj(),
			status: unresolvable + `waiting for ephemeral volume controller to create the persistentvolumeclaim "web-x"`,
		},
		"an ephemeral claim of another pod": {
			pod: fixture.Pod("web").Mutate(func(pod *v1.Pod) {
				pod.Spec.Volumes = []v1.Volume{{Name: "x", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}}}
			}).Obj(),
			objects: []runtime.Object{fixture.Claim("web-x", "local").Obj()},
			status:  unresolvable + "PVC default/web-x was not created for pod default/web (pod is not owner)",
		},
		"a claim that lost its volume": {
			pod: podWithClaims("a"), status: unresolvable + `persistentvolumeclaim "a" bound to non-existent persistentvolume "v"`,
			objects: []runtime.Object{fixture.Claim("a", "local").BoundTo("v").Mutate(func(c *v1.PersistentVolumeClaim) { c.Status.Phase = v1.ClaimLost }).Obj()},
		},
		"a claim that is being deleted": {
			pod: podWithClaims("a"), status: unresolvable + `persistentvolumeclaim "a" is being deleted`,
			objects: []runtime.Object{fixture.Claim("a", "local").Mutate(func(c *v1.PersistentVolumeClaim) {
				c.DeletionTimestamp, c.Finalizers = &metav1.Time{Time: metav1.Now().Time}, []string{"kubernetes.io/pvc-protection"}
			}).Obj()},
		},
		"an unbound claim with immediate binding": {
			pod: podWithClaims("a"), status: unresolvable + "pod has unbound immediate PersistentVolumeClaims",
			objects: []runtime.Object{fixture.ImmediateStorageClass("now", ""), fixture.Claim("a", "now").Obj()},
		},
		"an unbound claim that names its volume": {
			pod: podWithClaims("a"), status: unresolvable + "pod has unbound immediate PersistentVolumeClaims",
			objects: []runtime.Object{local, fixture.Claim("a", "local").Mutate(func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeName = "v" }).Obj()},
		},
		"a bound claim, by the node affinity of its volume": {
			pod: podWithClaims("a"), rejections: map[string]string{"n2": unresolvable + "node(s) didn't match PersistentVolume's node affinity"},
			objects: []runtime.Object{fixture.Claim("a", "local").BoundTo("v").Obj(), fixture.Volume("v", "local").NodeAffinity(v1.LabelTopologyZone, "a").Obj()},
		},
		"a bound claim whose volume does not exist": {
			pod: podWithClaims("a"), objects: []runtime.Object{fixture.Claim("a", "local").BoundTo("v").Obj()},
			rejections: map[string]string{
				"n1": unresolvable + "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
				"n2": unresolvable + "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
			},
		},
		"an unbound claim, by available volumes": {
			pod: podWithClaims("a"), rejections: map[string]string{"n2": unresolvable + "node(s) didn't find available persistent volumes to bind"},
			objects: []runtime.Object{
				local, fixture.Claim("a", "local").Requests("2Gi").Obj(), fixture.Volume("v", "local").Capacity("2Gi").NodeAffinity(v1.LabelTopologyZone, "a").Obj(),
				fixture.Volume("small", "local").Obj(), fixture.Volume("other", "else").Capacity("2Gi").Obj(),
				fixture.Volume("taken", "local").Capacity("2Gi").BoundTo(fixture.Claim("b", "local").Obj()).Obj(),
			},
		},
		"two claims need two volumes": {
			pod: podWithClaims("a", "b"), objects: []runtime.Object{
				local, fixture.Claim("a", "local").Obj(), fixture.Claim("b", "local").Obj(),
				fixture.Volume("v", "local").Obj(), fixture.Volume("w", "local").NodeAffinity(v1.LabelTopologyZone, "b").Obj(),
			},
			rejections: map[string]string{"n1": unresolvable + "node(s) didn't find available persistent volumes to bind"},
		},
		"two reasons at once": {
			pod: podWithClaims("a", "b"), objects: []runtime.Object{
				local, fixture.Claim("a", "local").Obj(), fixture.Claim("b", "local").BoundTo("v").Obj(),
				fixture.Volume("v", "local").NodeAffinity(v1.LabelTopologyZone, "a").Mutate(func(v *v1.PersistentVolume) { v.Status.Phase = v1.VolumeBound }).Obj(),
			},
			rejections: map[string]string{
				"n1": unresolvable + "node(s) didn't find available persistent volumes to bind",
				"n2": unresolvable + "node(s) didn't match PersistentVolume's node affinity: node(s) didn't find available persistent volumes to bind",
			},
		},
		"a claim that is being provisioned stays with its node": {
			pod: podWithClaims("a"), objects: []runtime.Object{dynamic, fixture.Claim("a", "made").SelectedNode("n2").Obj()},
			rejections: map[string]string{"n1": unresolvable + "node(s) didn't find available persistent volumes to bind"},
		},
		"a claim to be provisioned fits on any node": {pod: podWithClaims("a"), objects: []runtime.Object{dynamic, fixture.Claim("a", "made").Obj()}},
		"a class that allows a zone": {
			pod: podWithClaims("a"), objects: []runtime.Object{inZone(dynamic, "b"), fixture.Claim("a", "made").Obj()},
			rejections: map[string]string{"n1": unresolvable + "node(s) didn't find available persistent volumes to bind"},
		},
		"a driver with storage capacity, by the free capacity": {
			pod: podWithClaims("a"), objects: []runtime.Object{dynamic, driverWithCapacity(true), storageCapacity("a", "1Gi"), storageCapacity("b", "3Gi"), fixture.Claim("a", "made").Requests("2Gi").Obj()},
			rejections: map[string]string{"n1": unresolvable + "node(s) did not have enough free storage"},
		},
		"a driver with storage capacity, by the maximum volume size": {
			pod: podWithClaims("a"), objects: []runtime.Object{dynamic, driverWithCapacity(true), storageCapacity("a", "9Gi"), fixture.Claim("a", "made").Requests("2Gi").Obj(),
				func() *storagev1.CSIStorageCapacity {
					b, most := storageCapacity("b", "9Gi"), resource.MustParse("1Gi")
					b.MaximumVolumeSize = &most
					return b
				}()},
			rejections: map[string]string{"n2": unresolvable + "node(s) did not have enough free storage"},
		},
		"a driver without storage capacity": {
			pod: podWithClaims("a"), objects: []runtime.Object{dynamic, driverWithCapacity(false), fixture.Claim("a", "made").Requests("2Gi").Obj()},
		},
		"a volume of a migrated plugin": {
			pod: podWithClaims("a"), objects: []runtime.Object{
				fixture.Claim("a", "gce").BoundTo("v").Obj(),
				fixture.Volume("v", "gce").NodeAffinity(v1.LabelTopologyZone, "a").Mutate(func(v *v1.PersistentVolume) {
					v.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: "disk"}}
				}).Obj(),
				&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{
					v1.MigratedPluginsAnnotationKey: "kubernetes.io/aws-ebs,kubernetes.io/gce-pd",
				}}},
			},
			rejections: map[string]string{
				"n1": unresolvable + "node(s) didn't match PersistentVolume's node affinity", // it lacks the driver's own label
				"n2": unresolvable + "node(s) didn't match PersistentVolume's node affinity",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(env *testEnv) {
				a := env.evaluate(c.pod, node1, node2)
				env.expect("PreFilter", a.preFilterStatus, c.status)
				if c.rejections == nil {
					c.rejections = map[string]string{}
				}
				env.expect("Filter", a.rejections, c.rejections)
			}, c.objects...)
		})
	}
}

func TestScore(t *testing.T) {
	local, dynamic := fixture.StorageClass("local", ""), fixture.StorageClass("made", "csi")
	for name, c := range map[string]struct {
		objects []runtime.Object
		want    map[string]int64
	}{
		"more free storage in a volume scores higher": {
			objects: []runtime.Object{
				local, fixture.Claim("a", "local").Requests("2Gi").Obj(), fixture.Volume("v", "local").Capacity("4Gi").NodeAffinity(v1.LabelTopologyZone, "a").Obj(),
				fixture.Volume("w", "local").Capacity("8Gi").NodeAffinity(v1.LabelTopologyZone, "b").Obj(),
			},
			want: map[string]int64{"n1": 50, "n2": 75},
		},
		"more storage capacity scores higher": {
			objects: []runtime.Object{dynamic, driverWithCapacity(true), storageCapacity("a", "2Gi"), storageCapacity("b", "10Gi"), fixture.Claim("a", "made").Requests("2Gi").Obj()},
			want:    map[string]int64{"n1": 0, "n2": 80},
		},
		"without storage capacity all nodes score 0": {
			objects: []runtime.Object{dynamic, fixture.Claim("a", "made").Obj()}, want: map[string]int64{"n1": 0, "n2": 0},
		},
		"a bound claim does not score": {
			objects: []runtime.Object{fixture.Claim("a", "local").BoundTo("v").Obj(), fixture.Volume("v", "local").Obj()}, want: map[string]int64{"n1": 0, "n2": 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(env *testEnv) { env.expect("scores", env.evaluate(podWithClaims("a"), node1, node2).score, c.want) }, c.objects...)
		})
	}
}

func TestAPodWithoutClaimsIsSkipped(t *testing.T) {
	runTest(t, func(env *testEnv) {
		a := env.evaluate(podWithClaims())
		_, preflight := env.PreBindPreFlight(env.ctx, a.state, a.pod, "n1")
		env.expect("Filter", env.Filter(env.ctx, a.state, a.pod, nil).IsSuccess(), true)
		env.expect("PreScore", statusText(env.PreScore(env.ctx, a.state, a.pod, nil)), "Skip")
		env.expect("Reserve", env.Reserve(env.ctx, a.state, a.pod, "n1").IsSuccess(), true)
		env.expect("PreBindPreFlight", statusText(preflight), "Skip")
		env.expect("PreBind", env.PreBind(env.ctx, a.state, a.pod, "n1").IsSuccess(), true)
		env.Unreserve(env.ctx, a.state, a.pod, "n1")
	})
}
