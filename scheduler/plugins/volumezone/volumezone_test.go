package volumezone

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

// fakeHandle is a Handle that offers informers and nothing else.
type fakeHandle struct {
	fwk.Handle
	informers informers.SharedInformerFactory
}

func (h fakeHandle) SharedInformerFactory() informers.SharedInformerFactory { return h.informers }

// classWithoutBindingMode returns a class without a volumeBindingMode.
func classWithoutBindingMode() *storagev1.StorageClass {
	class := fixture.StorageClass("modeless", "csi")
	class.VolumeBindingMode = nil
	return class
}

// newPlugin returns the plugin in a cluster where claim "data" is bound to a volume
// with labels, and the names of the other claims say what they lack.
func newPlugin(t *testing.T, labels map[string]string) *Plugin {
	t.Helper()
	h := fakeHandle{informers: informers.NewSharedInformerFactory(nil, 0)}
	core, storage := h.informers.Core().V1(), h.informers.Storage().V1()
	labelled := fixture.Volume("pv", "late").Mutate(func(v *v1.PersistentVolume) { v.Labels = labels })
	for object, store := range map[any]interface{ Add(any) error }{
		labelled.Obj(): core.PersistentVolumes().Informer().GetStore(),
		fixture.Claim("data", "late").BoundTo("pv").Obj():   core.PersistentVolumeClaims().Informer().GetStore(),
		fixture.Claim("lost", "late").BoundTo("gone").Obj(): core.PersistentVolumeClaims().Informer().GetStore(),
		fixture.Claim("waits", "late").Obj():                core.PersistentVolumeClaims().Informer().GetStore(),
		fixture.Claim("unbound", "now").Obj():               core.PersistentVolumeClaims().Informer().GetStore(),
		fixture.Claim("classless", "").Obj():                core.PersistentVolumeClaims().Informer().GetStore(),
		fixture.Claim("nowhere", "gone").Obj():              core.PersistentVolumeClaims().Informer().GetStore(),
		fixture.Claim("modeless", "modeless").Obj():         core.PersistentVolumeClaims().Informer().GetStore(),
		fixture.StorageClass("late", "csi"):                 storage.StorageClasses().Informer().GetStore(),
		fixture.ImmediateStorageClass("now", "csi"):         storage.StorageClasses().Informer().GetStore(),
		classWithoutBindingMode():                           storage.StorageClasses().Informer().GetStore(),
	} {
		if err := store.Add(object); err != nil {
			t.Fatal(err)
		}
	}
	plugin, err := New(t.Context(), nil, h)
	if err != nil {
		t.Fatal(err)
	}
	return plugin.(*Plugin)
}

func TestPreFilter(t *testing.T) {
	refused := func(reason string) *fwk.Status { return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason) }
	for claim, want := range map[string]*fwk.Status{
		"data":      nil,
		"waits":     fwk.NewStatus(fwk.Skip),
		"":          refused("PersistentVolumeClaim had no name"),
		"missing":   refused(`persistentvolumeclaim "missing" not found`),
		"lost":      refused(`persistentvolume "gone" not found`),
		"unbound":   refused("PersistentVolume had no name"),
		"classless": refused("PersistentVolumeClaim had no pv name and storageClass name"),
		"nowhere":   refused(`storageclass.storage.k8s.io "gone" not found`),
		"modeless":  refused(`VolumeBindingMode not set for StorageClass "modeless"`),
	} {
		t.Run("a claim "+claim, func(t *testing.T) {
			p := newPlugin(t, map[string]string{v1.LabelTopologyZone: "a"})
			_, got := p.PreFilter(t.Context(), framework.NewCycleState(), fixture.Pod("a").Claim(claim).Obj(), nil)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFilter(t *testing.T) {
	elsewhere := fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) had no available volume zone")
	for name, c := range map[string]struct {
		volume, node map[string]string
		want         *fwk.Status
	}{
		"the same zone":                         {map[string]string{v1.LabelTopologyZone: "a"}, map[string]string{v1.LabelTopologyZone: "a"}, nil},
		"another zone":                          {map[string]string{v1.LabelTopologyZone: "a"}, map[string]string{v1.LabelTopologyZone: "b"}, elsewhere},
		"one of several zones":                  {map[string]string{v1.LabelTopologyZone: "a__b"}, map[string]string{v1.LabelTopologyZone: "b"}, nil},
		"none of several zones":                 {map[string]string{v1.LabelTopologyZone: "a__b"}, map[string]string{v1.LabelTopologyZone: "c"}, elsewhere},
		"a node without topology labels fits":   {map[string]string{v1.LabelTopologyZone: "a"}, nil, nil},
		"a node with another topology label":    {map[string]string{v1.LabelTopologyZone: "a"}, map[string]string{v1.LabelTopologyRegion: "a"}, elsewhere},
		"the beta label of the volume":          {map[string]string{v1.LabelFailureDomainBetaZone: "a"}, map[string]string{v1.LabelTopologyZone: "a"}, nil},
		"the beta label of the node":            {map[string]string{v1.LabelTopologyZone: "a"}, map[string]string{v1.LabelFailureDomainBetaZone: "a"}, elsewhere},
		"another region":                        {map[string]string{v1.LabelFailureDomainBetaRegion: "x"}, map[string]string{v1.LabelTopologyRegion: "y"}, elsewhere},
		"a label with an empty zone is ignored": {map[string]string{v1.LabelTopologyZone: "a____b", v1.LabelTopologyRegion: "x"}, map[string]string{v1.LabelTopologyZone: "c", v1.LabelTopologyRegion: "x"}, nil},
	} {
		for _, prefilters := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				p, state, pod := newPlugin(t, c.volume), framework.NewCycleState(), fixture.Pod("a").Claim("data").Obj()
				if prefilters {
					if _, status := p.PreFilter(t.Context(), state, pod, nil); !status.IsSuccess() {
						t.Fatal(status.Message())
					}
				}
				info := framework.NewNodeInfo()
				info.SetNode(fixture.Node("n").Mutate(func(n *v1.Node) { n.Labels = c.node }).Obj())
				if diff := cmp.Diff(c.want, p.Filter(t.Context(), state, pod, info)); diff != "" {
					t.Errorf("after PreFilter %v, status (-want +got):\n%s", prefilters, diff)
				}
			})
		}
	}
}

func TestHints(t *testing.T) {
	pod := fixture.Pod("a").Claim("data").Obj()
	in := func(zone string) *v1.PersistentVolume {
		return fixture.Volume("pv", "late").Mutate(func(v *v1.PersistentVolume) { v.Labels = map[string]string{v1.LabelTopologyZone: zone} }).Obj()
	}
	for name, c := range map[string]struct {
		hint          fwk.QueueingHintFn
		before, after any
		want          fwk.QueueingHint
	}{
		"a class with delayed binding is added":              {isSchedulableAfterStorageClassAdded, nil, fixture.StorageClass("late", "csi"), fwk.Queue},
		"a class with immediate binding is added":            {isSchedulableAfterStorageClassAdded, nil, fixture.ImmediateStorageClass("now", "csi"), fwk.QueueSkip},
		"a class without a binding mode is added":            {isSchedulableAfterStorageClassAdded, nil, classWithoutBindingMode(), fwk.QueueSkip},
		"its claim is added":                                 {isSchedulableAfterPersistentVolumeClaimChange, nil, fixture.Claim("data", "late").Obj(), fwk.Queue},
		"its claim is bound":                                 {isSchedulableAfterPersistentVolumeClaimChange, fixture.Claim("data", "late").Obj(), fixture.Claim("data", "late").BoundTo("pv").Obj(), fwk.Queue},
		"another claim is added":                             {isSchedulableAfterPersistentVolumeClaimChange, nil, fixture.Claim("logs", "late").Obj(), fwk.QueueSkip},
		"a claim of that name in another namespace is added": {isSchedulableAfterPersistentVolumeClaimChange, nil, fixture.Claim("shop/data", "late").Obj(), fwk.QueueSkip},
		"a volume is added":                                  {isSchedulableAfterPersistentVolumeChange, nil, in("a"), fwk.Queue},
		"the zone of a volume changes":                       {isSchedulableAfterPersistentVolumeChange, in("a"), in("b"), fwk.Queue},
		"the zones of a volume change their order":           {isSchedulableAfterPersistentVolumeChange, in("a__b"), in("b__a"), fwk.QueueSkip},
		"a volume changes otherwise":                         {isSchedulableAfterPersistentVolumeChange, in("a"), in("a"), fwk.QueueSkip},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := c.hint(klog.Background(), pod, c.before, c.after); got != c.want || err != nil {
				t.Errorf("%v, %v, want %v", got, err, c.want)
			}
		})
	}
	for _, hint := range []fwk.QueueingHintFn{isSchedulableAfterStorageClassAdded, isSchedulableAfterPersistentVolumeClaimChange, isSchedulableAfterPersistentVolumeChange} {
		if got, err := hint(klog.Background(), pod, nil, fixture.Node("n").Obj()); got != fwk.Queue || err == nil {
			t.Errorf("an object of another kind: %v, %v", got, err)
		}
	}
}
