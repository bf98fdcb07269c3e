package nodevolumelimits

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

// fakeHandle is a Handle over informers that are never started.
type fakeHandle struct {
	fwk.Handle
	informers informers.SharedInformerFactory
}

func (c fakeHandle) SharedInformerFactory() informers.SharedInformerFactory { return c.informers }
func (c fakeHandle) SharedCSIManager() fwk.CSIManager                       { return c }
func (c fakeHandle) CSINodes() fwk.CSINodeLister                            { return c }

func (c fakeHandle) List() ([]*storagev1.CSINode, error) {
	return c.informers.Storage().V1().CSINodes().Lister().List(labels.Everything())
}

func (c fakeHandle) Get(name string) (*storagev1.CSINode, error) {
	return c.informers.Storage().V1().CSINodes().Lister().Get(name)
}

const (
	driver          = "one.csi.example.com"
	strictDriver    = "two.csi.example.com" // prevents scheduling to nodes without it
	migrationDriver = "pd.csi.storage.gke.io"
)

func csiVolume(name, driver string) *v1.PersistentVolume {
	return fixture.Volume(name, "late").Mutate(func(v *v1.PersistentVolume) {
		v.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: name}}
	}).Obj()
}

func gceDisk(name string) v1.PersistentVolumeSource {
	return v1.PersistentVolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: name}}
}

// ephemeralClaim returns the claim of the ephemeral volume v0 of a pod.
func ephemeralClaim(pod *v1.Pod) *v1.PersistentVolumeClaim {
	return fixture.Claim(pod.Namespace+"/"+pod.Name+"-v0", "late").Mutate(func(c *v1.PersistentVolumeClaim) {
		c.OwnerReferences = []metav1.OwnerReference{{UID: pod.UID, Controller: new(true)}}
	}).Obj()
}

func attachment(volume, attacher, node string) *storagev1.VolumeAttachment {
	a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: volume + node}}
	a.Spec = storagev1.VolumeAttachmentSpec{Attacher: attacher, NodeName: node}
	if volume != "" {
		a.Spec.Source.PersistentVolumeName = &volume
	}
	return a
}

// csiNodeWithLimits returns the CSINode of node "n" with these limits by driver; a
// negative limit stands for none.
func csiNodeWithLimits(limitByDriver map[string]int32) *storagev1.CSINode {
	node := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	for name, limit := range limitByDriver {
		d := storagev1.CSINodeDriver{Name: name}
		if limit >= 0 {
			d.Allocatable = &storagev1.VolumeNodeResources{Count: &limit}
		}
		node.Spec.Drivers = append(node.Spec.Drivers, d)
	}
	return node
}

// newPlugin returns the plugin in a cluster with claims of every kind, and objects.
func newPlugin(t *testing.T, objects ...any) *Plugin {
	t.Helper()
	c := fakeHandle{informers: informers.NewSharedInformerFactory(nil, 0)}
	inTree := fixture.Volume("d-own", "").Mutate(func(v *v1.PersistentVolume) { v.Spec.PersistentVolumeSource = gceDisk("d-own") })
	prevents := true
	for _, object := range append([]any{
		csiVolume("pv-a", driver), csiVolume("pv-b", driver), csiVolume("pv-strict", strictDriver), inTree.Obj(), fixture.Volume("pv-host", "").Obj(),
		fixture.Claim("a", "late").BoundTo("pv-a").Obj(), fixture.Claim("b", "late").BoundTo("pv-b").Obj(),
		fixture.Claim("also-a", "late").BoundTo("pv-a").Obj(), fixture.Claim("host", "").BoundTo("pv-host").Obj(),
		fixture.Claim("migrated", "").BoundTo("d-own").Obj(), fixture.Claim("migrates", "disk").Obj(),
		fixture.Claim("strict", "").BoundTo("pv-strict").Obj(), fixture.Claim("waits", "late").Obj(),
		fixture.Claim("lost", "late").BoundTo("gone").Obj(), fixture.Claim("classless", "").Obj(), fixture.Claim("nowhere", "gone").Obj(),
		fixture.StorageClass("late", driver), fixture.StorageClass("disk", "kubernetes.io/gce-pd"),
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: strictDriver}, Spec: storagev1.CSIDriverSpec{PreventPodSchedulingIfMissing: &prevents}},
	}, objects...) {
		c.add(t, object)
	}
	plugin, err := New(t.Context(), nil, c)
	if err != nil {
		t.Fatal(err)
	}
	return plugin.(*Plugin)
}

func (c fakeHandle) add(t *testing.T, object any) {
	core, storage := c.informers.Core().V1(), c.informers.Storage().V1()
	var err error
	switch object.(type) {
	case *v1.PersistentVolume:
		err = core.PersistentVolumes().Informer().GetStore().Add(object)
	case *v1.PersistentVolumeClaim:
		err = core.PersistentVolumeClaims().Informer().GetStore().Add(object)
	case *storagev1.StorageClass:
		err = storage.StorageClasses().Informer().GetStore().Add(object)
	case *storagev1.CSINode:
		err = storage.CSINodes().Informer().GetStore().Add(object)
	case *storagev1.CSIDriver:
		err = storage.CSIDrivers().Informer().GetStore().Add(object)
	case *storagev1.VolumeAttachment:
		err = storage.VolumeAttachments().Informer().GetStore().Add(object)
	default:
		t.Fatalf("no informer for a %T", object)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func podWithEphemeralVolume(name string) *fixture.PodBuilder {
	return fixture.Pod(name).Mutate(func(pod *v1.Pod) {
		pod.UID = types.UID(name)
		pod.Spec.Volumes = []v1.Volume{{Name: "v0", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}}}
	})
}

func podWithInlineDisk(name, disk string) *fixture.PodBuilder {
	return fixture.Pod(name).Mutate(func(pod *v1.Pod) {
		pod.Spec.Volumes = []v1.Volume{{Name: "v0", VolumeSource: v1.VolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: disk}}}}
	})
}

func TestFilter(t *testing.T) {
	full := fwk.NewStatus(fwk.Unschedulable, "node(s) exceed max volume count")
	one, none := csiNodeWithLimits(map[string]int32{driver: 1}), csiNodeWithLimits(map[string]int32{driver: 0, migrationDriver: 0})
	claims := func(names ...string) *fixture.PodBuilder {
		pod := fixture.Pod("new")
		for _, name := range names {
			pod.Claim(name)
		}
		return pod
	}
	for name, c := range map[string]struct {
		pod     *fixture.PodBuilder
		there   *fixture.PodBuilder
		objects []any
		want    *fwk.Status
	}{
		"one volume with a limit of 1":                          {claims("a"), nil, []any{one}, nil},
		"two volumes with a limit of 1":                         {claims("a", "b"), nil, []any{one}, full},
		"one volume under two claims":                           {claims("a", "also-a"), nil, []any{one}, nil},
		"the limit is reached":                                  {claims("a"), fixture.Pod("there").Claim("b"), []any{one}, full},
		"the volume is on the node already":                     {claims("a"), fixture.Pod("there").Claim("a"), []any{one}, nil},
		"a pod on the node has a claim that does not exist":     {claims("a"), fixture.Pod("there").Claim("gone"), []any{one}, nil},
		"there is no CSINode":                                   {claims("a", "b"), nil, nil, nil},
		"a driver without limits":                               {claims("a", "b"), nil, []any{csiNodeWithLimits(map[string]int32{driver: -1})}, nil},
		"another driver has a limit of 0":                       {claims("a"), nil, []any{csiNodeWithLimits(map[string]int32{strictDriver: 0})}, nil},
		"a hostPath volume":                                     {claims("host"), nil, []any{none}, nil},
		"a claim that waits for its first consumer":             {claims("waits"), nil, []any{none}, full},
		"a claim whose volume does not exist":                   {claims("lost"), nil, []any{none}, full},
		"an unbound claim without a class":                      {claims("classless"), nil, []any{none}, nil},
		"an unbound claim of a class that does not exist":       {claims("nowhere"), nil, []any{none}, nil},
		"a volume of a migrated plugin":                         {claims("migrated"), nil, []any{none}, full},
		"a class of a migrated plugin":                          {claims("migrates"), nil, []any{none}, full},
		"an inline disk of a migrated plugin":                   {podWithInlineDisk("new", "d"), nil, []any{none}, full},
		"an inline disk of a migrated plugin without a CSINode": {podWithInlineDisk("new", "d"), nil, nil, nil},
		"one disk of two pods":                                  {podWithInlineDisk("new", "d"), podWithInlineDisk("there", "d"), []any{csiNodeWithLimits(map[string]int32{migrationDriver: 1})}, nil},
		"two disks of two pods":                                 {podWithInlineDisk("new", "d"), podWithInlineDisk("there", "e"), []any{csiNodeWithLimits(map[string]int32{migrationDriver: 1})}, full},
		"an ephemeral volume":                                   {podWithEphemeralVolume("new"), nil, []any{none, ephemeralClaim(podWithEphemeralVolume("new").Obj())}, full},
		"a claim that does not exist": {claims("gone"), nil, nil,
			fwk.NewStatus(fwk.UnschedulableAndUnresolvable, `looking up PVC default/gone: persistentvolumeclaim "gone" not found`)},
		"an attached volume that no pod uses counts":                     {claims("a"), nil, []any{one, attachment("pv-b", driver, "n")}, full},
		"an attached volume that a pod uses counts once":                 {claims("a"), fixture.Pod("there").Claim("b"), []any{csiNodeWithLimits(map[string]int32{driver: 2}), attachment("pv-b", driver, "n")}, nil},
		"an attached volume that the pod uses counts twice, as upstream": {claims("a"), nil, []any{one, attachment("pv-a", driver, "n")}, full},
		"an attached volume on another node":                             {claims("a"), nil, []any{one, attachment("pv-b", driver, "m")}, nil},
		"an attachment whose volume does not exist":                      {claims("a"), nil, []any{one, attachment("gone", driver, "n")}, nil},
		"an attachment without a volume":                                 {claims("a"), nil, []any{one, attachment("", driver, "n")}, nil},
		"a driver that prevents scheduling is not installed": {claims("strict"), nil, []any{one},
			fwk.NewStatus(fwk.Unschedulable, "two.csi.example.com CSI driver is not installed on the node")},
		"a driver that prevents scheduling, without a CSINode": {claims("strict"), nil, nil,
			fwk.NewStatus(fwk.Unschedulable, "two.csi.example.com CSI driver is not installed on the node")},
		"a driver that prevents scheduling is installed": {claims("strict"), nil, []any{csiNodeWithLimits(map[string]int32{strictDriver: -1})}, nil},
		"another driver is not installed":                {claims("a"), nil, []any{csiNodeWithLimits(map[string]int32{strictDriver: -1})}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p, info := newPlugin(t, c.objects...), framework.NewNodeInfo()
			if c.there != nil {
				info = framework.NewNodeInfo(c.there.Obj())
			}
			info.SetNode(fixture.Node("n").Obj())
			if diff := cmp.Diff(c.want, p.Filter(t.Context(), framework.NewCycleState(), c.pod.Obj(), info)); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAClaimOfAnotherPodIsAnError(t *testing.T) {
	p, info := newPlugin(t, ephemeralClaim(podWithEphemeralVolume("new").Obj())), framework.NewNodeInfo()
	info.SetNode(fixture.Node("n").Obj())
	pod := podWithEphemeralVolume("new").Mutate(func(pod *v1.Pod) { pod.UID = "another" }).Obj()
	status := p.Filter(t.Context(), framework.NewCycleState(), pod, info)
	if want := "PVC default/new-v0 was not created for pod default/new (pod is not owner)"; status.Code() != fwk.Error || status.Message() != want {
		t.Errorf("%v: %s, want an error: %s", status.Code(), status.Message(), want)
	}
}

func TestPreFilterSkip(t *testing.T) {
	p := newPlugin(t)
	for name, c := range map[string]struct {
		pod   *fixture.PodBuilder
		skips bool
	}{
		"a pod without volumes":        {fixture.Pod("a"), true},
		"one with an empty directory":  {fixture.Pod("a").Mutate(func(pod *v1.Pod) { pod.Spec.Volumes = []v1.Volume{{Name: "v"}} }), true},
		"one with a claim":             {fixture.Pod("a").Claim("data"), false},
		"one with an ephemeral volume": {podWithEphemeralVolume("a"), false},
		"one with a migrated disk":     {podWithInlineDisk("a", "d"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if _, status := p.PreFilter(t.Context(), framework.NewCycleState(), c.pod.Obj(), nil); status.IsSkip() != c.skips {
				t.Errorf("%v, want a skip: %v", status, c.skips)
			}
		})
	}
}
