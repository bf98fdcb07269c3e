package volumebinding

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berthdev/berth/test/fixture"
)

const unresolvable = "UnschedulableAndUnresolvable: "

// counting is a driver that counts what it has left.
func counting(counts bool) *storagev1.CSIDriver {
	return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "csi"}, Spec: storagev1.CSIDriverSpec{StorageCapacity: &counts}}
}

// left is what is left of class made for the nodes of a zone.
func left(zone, capacity string) *storagev1.CSIStorageCapacity {
	amount := resource.MustParse(capacity)
	return &storagev1.CSIStorageCapacity{
		ObjectMeta: metav1.ObjectMeta{Namespace: "driver", Name: zone}, StorageClassName: "made", Capacity: &amount,
		NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelTopologyZone: zone}},
	}
}

func TestFilter(t *testing.T) {
	local, made := fixture.StorageClass("local", ""), fixture.StorageClass("made", "csi")
	inZone := func(class *storagev1.StorageClass, zone string) *storagev1.StorageClass {
		class = class.DeepCopy()
		class.AllowedTopologies = []v1.TopologySelectorTerm{{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{
			{Key: v1.LabelTopologyZone, Values: []string{zone}},
		}}}
		return class
	}
	for name, c := range map[string]struct {
		objects []runtime.Object
		pod     *v1.Pod
		said    string
		refused map[string]string
	}{
		"a pod without claims is skipped": {pod: web(), said: "Skip"},
		"a claim that is not there":       {pod: web("a"), said: unresolvable + `persistentvolumeclaim "a" not found`},
		"an ephemeral claim that is not there yet": {
			pod: fixture.Pod("web").Mutate(func(pod *v1.Pod) {
				pod.Spec.Volumes = []v1.Volume{{Name: "x", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}}}
			}).Obj(),
			said: unresolvable + `waiting for ephemeral volume controller to create the persistentvolumeclaim "web-x"`,
		},
		"an ephemeral claim that is somebody else's": {
			pod: fixture.Pod("web").Mutate(func(pod *v1.Pod) {
				pod.Spec.Volumes = []v1.Volume{{Name: "x", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}}}
			}).Obj(),
			objects: []runtime.Object{fixture.Claim("web-x", "local").Obj()},
			said:    unresolvable + "PVC default/web-x was not created for pod default/web (pod is not owner)",
		},
		"a claim that lost its volume": {
			pod: web("a"), said: unresolvable + `persistentvolumeclaim "a" bound to non-existent persistentvolume "v"`,
			objects: []runtime.Object{fixture.Claim("a", "local").BoundTo("v").Mutate(func(c *v1.PersistentVolumeClaim) { c.Status.Phase = v1.ClaimLost }).Obj()},
		},
		"a claim that is being deleted": {
			pod: web("a"), said: unresolvable + `persistentvolumeclaim "a" is being deleted`,
			objects: []runtime.Object{fixture.Claim("a", "local").Mutate(func(c *v1.PersistentVolumeClaim) {
				c.DeletionTimestamp, c.Finalizers = &metav1.Time{Time: metav1.Now().Time}, []string{"kubernetes.io/pvc-protection"}
			}).Obj()},
		},
		"a claim that is bound at once, and is not yet": {
			pod: web("a"), said: unresolvable + "pod has unbound immediate PersistentVolumeClaims",
			objects: []runtime.Object{fixture.ImmediateClass("now", ""), fixture.Claim("a", "now").Obj()},
		},
		"a claim that names its volume is the controller's, too": {
			pod: web("a"), said: unresolvable + "pod has unbound immediate PersistentVolumeClaims",
			objects: []runtime.Object{local, fixture.Claim("a", "local").Mutate(func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeName = "v" }).Obj()},
		},
		"a bound claim, by where its volume is": {
			pod: web("a"), refused: map[string]string{"n2": unresolvable + "node(s) didn't match PersistentVolume's node affinity"},
			objects: []runtime.Object{fixture.Claim("a", "local").BoundTo("v").Obj(), fixture.Volume("v", "local").Reached(v1.LabelTopologyZone, "a").Obj()},
		},
		"a bound claim whose volume is gone": {
			pod: web("a"), objects: []runtime.Object{fixture.Claim("a", "local").BoundTo("v").Obj()},
			refused: map[string]string{
				"n1": unresolvable + "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
				"n2": unresolvable + "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
			},
		},
		"a claim to be bound, by where a volume is free": {
			pod: web("a"), refused: map[string]string{"n2": unresolvable + "node(s) didn't find available persistent volumes to bind"},
			objects: []runtime.Object{
				local, fixture.Claim("a", "local").Asks("2Gi").Obj(), fixture.Volume("v", "local").Holds("2Gi").Reached(v1.LabelTopologyZone, "a").Obj(),
				fixture.Volume("small", "local").Obj(), fixture.Volume("other", "else").Holds("2Gi").Obj(),
				fixture.Volume("taken", "local").Holds("2Gi").BoundTo(fixture.Claim("b", "local").Obj()).Obj(),
			},
		},
		"two claims need two volumes": {
			pod: web("a", "b"), objects: []runtime.Object{
				local, fixture.Claim("a", "local").Obj(), fixture.Claim("b", "local").Obj(),
				fixture.Volume("v", "local").Obj(), fixture.Volume("w", "local").Reached(v1.LabelTopologyZone, "b").Obj(),
			},
			refused: map[string]string{"n1": unresolvable + "node(s) didn't find available persistent volumes to bind"},
		},
		"two reasons at once": {
			pod: web("a", "b"), objects: []runtime.Object{
				local, fixture.Claim("a", "local").Obj(), fixture.Claim("b", "local").BoundTo("v").Obj(),
				fixture.Volume("v", "local").Reached(v1.LabelTopologyZone, "a").Mutate(func(v *v1.PersistentVolume) { v.Status.Phase = v1.VolumeBound }).Obj(),
			},
			refused: map[string]string{
				"n1": unresolvable + "node(s) didn't find available persistent volumes to bind",
				"n2": unresolvable + "node(s) didn't match PersistentVolume's node affinity: node(s) didn't find available persistent volumes to bind",
			},
		},
		"a claim that is being provisioned stays with its node": {
			pod: web("a"), objects: []runtime.Object{made, fixture.Claim("a", "made").SelectedFor("n2").Obj()},
			refused: map[string]string{"n1": unresolvable + "node(s) didn't find available persistent volumes to bind"},
		},
		"a claim to be provisioned goes anywhere": {pod: web("a"), objects: []runtime.Object{made, fixture.Claim("a", "made").Obj()}},
		"a class that allows a zone": {
			pod: web("a"), objects: []runtime.Object{inZone(made, "b"), fixture.Claim("a", "made").Obj()},
			refused: map[string]string{"n1": unresolvable + "node(s) didn't find available persistent volumes to bind"},
		},
		"a driver that counts, by where it has enough left": {
			pod: web("a"), objects: []runtime.Object{made, counting(true), left("a", "1Gi"), left("b", "3Gi"), fixture.Claim("a", "made").Asks("2Gi").Obj()},
			refused: map[string]string{"n1": unresolvable + "node(s) did not have enough free storage"},
		},
		"a driver that counts, by how large a volume may be": {
			pod: web("a"), objects: []runtime.Object{made, counting(true), left("a", "9Gi"), fixture.Claim("a", "made").Asks("2Gi").Obj(),
				func() *storagev1.CSIStorageCapacity {
					b, most := left("b", "9Gi"), resource.MustParse("1Gi")
					b.MaximumVolumeSize = &most
					return b
				}()},
			refused: map[string]string{"n2": unresolvable + "node(s) did not have enough free storage"},
		},
		"a driver that does not count": {
			pod: web("a"), objects: []runtime.Object{made, counting(false), fixture.Claim("a", "made").Asks("2Gi").Obj()},
		},
		"a driver took over from the plugin that the volume names": {
			pod: web("a"), objects: []runtime.Object{
				fixture.Claim("a", "gce").BoundTo("v").Obj(),
				fixture.Volume("v", "gce").Reached(v1.LabelTopologyZone, "a").Mutate(func(v *v1.PersistentVolume) {
					v.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: "disk"}}
				}).Obj(),
				&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{
					v1.MigratedPluginsAnnotationKey: "kubernetes.io/aws-ebs,kubernetes.io/gce-pd",
				}}},
			},
			refused: map[string]string{
				"n1": unresolvable + "node(s) didn't match PersistentVolume's node affinity", // it lacks the driver's own label
				"n2": unresolvable + "node(s) didn't match PersistentVolume's node affinity",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(w *world) {
				a := w.try(c.pod, n1, n2)
				w.want("PreFilter", a.said, c.said)
				if c.refused == nil {
					c.refused = map[string]string{}
				}
				w.want("Filter", a.refused, c.refused)
			}, c.objects...)
		})
	}
}

func TestScore(t *testing.T) {
	local, made := fixture.StorageClass("local", ""), fixture.StorageClass("made", "csi")
	for name, c := range map[string]struct {
		objects []runtime.Object
		want    map[string]int64
	}{
		"the more is left over of a volume, the better": {
			objects: []runtime.Object{
				local, fixture.Claim("a", "local").Asks("2Gi").Obj(), fixture.Volume("v", "local").Holds("4Gi").Reached(v1.LabelTopologyZone, "a").Obj(),
				fixture.Volume("w", "local").Holds("8Gi").Reached(v1.LabelTopologyZone, "b").Obj(),
			},
			want: map[string]int64{"n1": 50, "n2": 75},
		},
		"the more is left to make volumes of, the better": {
			objects: []runtime.Object{made, counting(true), left("a", "2Gi"), left("b", "10Gi"), fixture.Claim("a", "made").Asks("2Gi").Obj()},
			want:    map[string]int64{"n1": 0, "n2": 80},
		},
		"where nobody counts, nobody is better": {
			objects: []runtime.Object{made, fixture.Claim("a", "made").Obj()}, want: map[string]int64{"n1": 0, "n2": 0},
		},
		"a bound claim is no reason": {
			objects: []runtime.Object{fixture.Claim("a", "local").BoundTo("v").Obj(), fixture.Volume("v", "local").Obj()}, want: map[string]int64{"n1": 0, "n2": 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(w *world) { w.want("scores", w.try(web("a"), n1, n2).score, c.want) }, c.objects...)
		})
	}
}

func TestAPodWithoutClaimsIsNobodysBusiness(t *testing.T) {
	inTime(t, func(w *world) {
		a := w.try(web())
		_, preflight := w.PreBindPreFlight(w.ctx, a.state, a.pod, "n1")
		w.want("Filter", w.Filter(w.ctx, a.state, a.pod, nil).IsSuccess(), true)
		w.want("PreScore", said(w.PreScore(w.ctx, a.state, a.pod, nil)), "Skip")
		w.want("Reserve", w.Reserve(w.ctx, a.state, a.pod, "n1").IsSuccess(), true)
		w.want("PreBindPreFlight", said(preflight), "Skip")
		w.want("PreBind", w.PreBind(w.ctx, a.state, a.pod, "n1").IsSuccess(), true)
		w.Unreserve(w.ctx, a.state, a.pod, "n1")
	})
}
