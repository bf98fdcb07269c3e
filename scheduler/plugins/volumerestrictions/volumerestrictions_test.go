package volumerestrictions

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

// fakeHandle is a Handle with claims, one of which is in use.
type fakeHandle struct {
	fwk.Handle
	fwk.SharedLister
	informers informers.SharedInformerFactory
	used      string
}

func (c *fakeHandle) SharedInformerFactory() informers.SharedInformerFactory { return c.informers }
func (c *fakeHandle) SnapshotSharedLister() fwk.SharedLister                 { return c }
func (c *fakeHandle) StorageInfos() fwk.StorageInfoLister                    { return c }
func (c *fakeHandle) IsPVCUsedByPods(key string) bool                        { return key == c.used }

// newPlugin returns the plugin in a cluster with the claims default/own, which is
// ReadWriteOncePod, and default/data, which is not.
func newPlugin(t *testing.T, used string) *Plugin {
	t.Helper()
	c := &fakeHandle{informers: informers.NewSharedInformerFactory(nil, 0), used: used}
	store := c.informers.Core().V1().PersistentVolumeClaims().Informer().GetStore()
	own := fixture.Claim("own", "fast").Mutate(func(claim *v1.PersistentVolumeClaim) {
		claim.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	})
	for _, claim := range []*v1.PersistentVolumeClaim{own.Obj(), fixture.Claim("data", "fast").Obj()} {
		if err := store.Add(claim); err != nil {
			t.Fatal(err)
		}
	}
	plugin, err := New(t.Context(), nil, c)
	if err != nil {
		t.Fatal(err)
	}
	return plugin.(*Plugin)
}

func podWithVolumes(name string, sources ...v1.VolumeSource) *fixture.PodBuilder {
	return fixture.Pod(name).Mutate(func(pod *v1.Pod) {
		for _, source := range sources {
			pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{VolumeSource: source})
		}
	})
}

func gce(name string, reads bool) v1.VolumeSource {
	return v1.VolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: name, ReadOnly: reads}}
}

func ebs(name string, reads bool) v1.VolumeSource {
	return v1.VolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: name, ReadOnly: reads}}
}

func iscsi(name string, reads bool) v1.VolumeSource {
	return v1.VolumeSource{ISCSI: &v1.ISCSIVolumeSource{IQN: name, ReadOnly: reads}}
}

func rbd(image, pool string, reads bool, monitors ...string) v1.VolumeSource {
	return v1.VolumeSource{RBD: &v1.RBDVolumeSource{RBDImage: image, RBDPool: pool, CephMonitors: monitors, ReadOnly: reads}}
}

// runFilter runs PreFilter and, if that succeeds, Filter. It returns the state and the
// last status.
func runFilter(t *testing.T, p *Plugin, pod *v1.Pod, there ...*v1.Pod) (*framework.CycleState, *fwk.Status) {
	t.Helper()
	state := framework.NewCycleState()
	if _, status := p.PreFilter(t.Context(), state, pod, nil); !status.IsSuccess() {
		return state, status
	}
	return state, p.Filter(t.Context(), state, pod, framework.NewNodeInfo(there...))
}

func TestDisksConflict(t *testing.T) {
	taken := fwk.NewStatus(fwk.Unschedulable, "node(s) had no available disk")
	skip := fwk.NewStatus(fwk.Skip)
	for name, c := range map[string]struct {
		wanted, there v1.VolumeSource
		want          *fwk.Status
	}{
		"an emptyDir does not conflict":                 {v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}, gce("d", false), skip},
		"a GCE disk that both write":                    {gce("d", false), gce("d", false), taken},
		"a GCE disk that one of them writes":            {gce("d", true), gce("d", false), taken},
		"a GCE disk that both read":                     {gce("d", true), gce("d", true), nil},
		"another GCE disk":                              {gce("d", false), gce("e", false), nil},
		"an EBS volume, even if both read":              {ebs("d", true), ebs("d", true), taken},
		"another EBS volume":                            {ebs("d", false), ebs("e", false), nil},
		"an iSCSI target that one of them writes":       {iscsi("d", true), iscsi("d", false), taken},
		"an iSCSI target that both read":                {iscsi("d", true), iscsi("d", true), nil},
		"an RBD image with one monitor in common":       {rbd("d", "p", false, "a", "b"), rbd("d", "p", false, "b", "c"), taken},
		"an RBD image with no monitor in common":        {rbd("d", "p", false, "a"), rbd("d", "p", false, "b"), nil},
		"an RBD image that both read":                   {rbd("d", "p", true, "a"), rbd("d", "p", true, "a"), nil},
		"an RBD image of the same name in another pool": {rbd("d", "p", false, "a"), rbd("d", "q", false, "a"), nil},
		"disks of one name and two kinds":               {gce("d", false), ebs("d", false), nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, got := runFilter(t, newPlugin(t, ""), podWithVolumes("a", c.wanted).Obj(), podWithVolumes("there", c.there).Obj())
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadWriteOncePodClaims(t *testing.T) {
	inUse := fwk.NewStatus(fwk.Unschedulable, "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod")
	for name, c := range map[string]struct {
		pod  *fixture.PodBuilder
		used string
		want *fwk.Status
	}{
		"a claim that no pod uses":                  {fixture.Pod("a").Claim("own"), "", fwk.NewStatus(fwk.Skip)},
		"a claim that another pod uses":             {fixture.Pod("a").Claim("own"), "default/own", inUse},
		"a claim of that name in another namespace": {fixture.Pod("a").Claim("own"), "shop/own", fwk.NewStatus(fwk.Skip)},
		"a claim that several pods may use":         {fixture.Pod("a").Claim("data"), "default/data", fwk.NewStatus(fwk.Skip)},
		"a claim that does not exist":               {fixture.Pod("a").Claim("gone"), "", fwk.NewStatus(fwk.UnschedulableAndUnresolvable, `persistentvolumeclaim "gone" not found`)},
		"a claim in use with a disk that is not":    {podWithVolumes("a", gce("d", false)).Claim("own"), "default/own", inUse},
	} {
		t.Run(name, func(t *testing.T) {
			_, got := runFilter(t, newPlugin(t, c.used), c.pod.Obj())
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRemovePodFreesTheClaimsOfThePod(t *testing.T) {
	p, pod, user := newPlugin(t, "default/own"), fixture.Pod("a").Claim("own").Obj(), framework.NewNodeInfo(fixture.Pod("user").Claim("own").Obj())
	state, refused := runFilter(t, p, pod)
	if refused.IsSuccess() {
		t.Fatal("the claim is in use, and the pod fits")
	}
	clone := state.Clone()
	extensions := p.PreFilterExtensions()
	if status := extensions.RemovePod(t.Context(), clone, pod, user.GetPods()[0], user); !status.IsSuccess() {
		t.Fatal(status.Message())
	}
	if status := p.Filter(t.Context(), clone, pod, framework.NewNodeInfo()); !status.IsSuccess() {
		t.Errorf("the other pod is removed: %s", status.Message())
	}
	if status := p.Filter(t.Context(), state, pod, framework.NewNodeInfo()); status.IsSuccess() {
		t.Error("a change of the cloned state changed the original")
	}
	if status := extensions.AddPod(t.Context(), clone, pod, user.GetPods()[0], user); !status.IsSuccess() {
		t.Fatal(status.Message())
	}
	if status := p.Filter(t.Context(), clone, pod, framework.NewNodeInfo()); status.IsSuccess() {
		t.Error("the other pod is added back, and the pod fits")
	}
}

func TestHints(t *testing.T) {
	for name, c := range map[string]struct {
		pod    *fixture.PodBuilder
		hint   fwk.QueueingHintFn
		before any
		after  any
		want   fwk.QueueingHint
	}{
		"a pod that used the disk is deleted, in any namespace": {podWithVolumes("a", gce("d", false)), isSchedulableAfterPodDeleted, podWithVolumes("shop/b", gce("d", false)).Obj(), nil, fwk.Queue},
		"a pod that only read the disk as well is deleted":      {podWithVolumes("a", gce("d", true)), isSchedulableAfterPodDeleted, podWithVolumes("b", gce("d", true)).Obj(), nil, fwk.QueueSkip},
		"a pod that used the claim is deleted":                  {fixture.Pod("a").Claim("own"), isSchedulableAfterPodDeleted, fixture.Pod("b").Claim("own").Obj(), nil, fwk.Queue},
		"a pod that used another claim is deleted":              {fixture.Pod("a").Claim("own"), isSchedulableAfterPodDeleted, fixture.Pod("b").Claim("data").Obj(), nil, fwk.QueueSkip},
		"its claim is added":                                    {fixture.Pod("a").Claim("own"), isSchedulableAfterPVCAdded, nil, fixture.Claim("own", "").Obj(), fwk.Queue},
		"another claim is added":                                {fixture.Pod("a").Claim("own"), isSchedulableAfterPVCAdded, nil, fixture.Claim("data", "").Obj(), fwk.QueueSkip},
		"a claim of that name in another namespace is added":    {fixture.Pod("a").Claim("own"), isSchedulableAfterPVCAdded, nil, fixture.Claim("shop/own", "").Obj(), fwk.QueueSkip},
		"a node is deleted":                                     {fixture.Pod("a").Claim("own"), isSchedulableAfterNodeDeleted, fixture.Node("n").Obj(), nil, fwk.Queue},
		"a node is deleted, and the pod has no claim":           {podWithVolumes("a", gce("d", false)), isSchedulableAfterNodeDeleted, fixture.Node("n").Obj(), nil, fwk.QueueSkip},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := c.hint(klog.Background(), c.pod.Obj(), c.before, c.after); got != c.want || err != nil {
				t.Errorf("%v, %v, want %v", got, err, c.want)
			}
		})
	}
	for _, hint := range []fwk.QueueingHintFn{isSchedulableAfterPodDeleted, isSchedulableAfterPVCAdded} {
		if got, err := hint(klog.Background(), fixture.Pod("a").Obj(), fixture.Node("n").Obj(), fixture.Node("n").Obj()); got != fwk.Queue || err == nil {
			t.Errorf("an object of another kind: %v, %v", got, err)
		}
	}
}
