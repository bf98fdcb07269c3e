package volumebinding

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/test/support/fixture"
)

func TestHints(t *testing.T) {
	class := fixture.StorageClass("made", "csi")
	allows := class.DeepCopy()
	allows.AllowedTopologies = []v1.TopologySelectorTerm{{}}
	migrated := func(plugins string) *storagev1.CSINode {
		return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{v1.MigratedPluginsAnnotationKey: plugins}}}
	}
	other := driverWithCapacity(true)
	other.Name = "other"
	otherNot := driverWithCapacity(false)
	otherNot.Name = "other"
	for name, c := range map[string]struct {
		resource      fwk.EventResource
		before, after any
		want          fwk.QueueingHint
	}{
		"a new class":                                     {fwk.StorageClass, nil, class, fwk.Queue},
		"a class allows other nodes":                      {fwk.StorageClass, class, allows, fwk.Queue},
		"a class changes otherwise":                       {fwk.StorageClass, class, class, fwk.QueueSkip},
		"the pod's claim":                                 {fwk.PersistentVolumeClaim, nil, fixture.Claim("a", "made").Obj(), fwk.Queue},
		"a claim of another pod":                          {fwk.PersistentVolumeClaim, nil, fixture.Claim("b", "made").Obj(), fwk.QueueSkip},
		"a claim of that name in another namespace":       {fwk.PersistentVolumeClaim, nil, fixture.Claim("else/a", "made").Obj(), fwk.QueueSkip},
		"a new CSINode":                                   {fwk.CSINode, nil, migrated(""), fwk.Queue},
		"a plugin is migrated":                            {fwk.CSINode, migrated(""), migrated("x"), fwk.Queue},
		"a CSINode with migrated plugins is deleted":      {fwk.CSINode, migrated("x"), nil, fwk.Queue},
		"a CSINode without migrated plugins is deleted":   {fwk.CSINode, migrated(""), nil, fwk.QueueSkip},
		"a volume of the pod's claim is deleted":          {fwk.PersistentVolume, fixture.Volume("v", "made").BoundTo(fixture.Claim("a", "made").Obj()).Obj(), nil, fwk.Queue},
		"a volume of another claim is deleted":            {fwk.PersistentVolume, fixture.Volume("v", "made").BoundTo(fixture.Claim("b", "made").Obj()).Obj(), nil, fwk.QueueSkip},
		"a volume that is reserved for none is deleted":   {fwk.PersistentVolume, fixture.Volume("v", "made").Obj(), nil, fwk.QueueSkip},
		"a volume is deleted whose last state is unknown": {fwk.PersistentVolume, toolscache.DeletedFinalStateUnknown{Key: "v"}, nil, fwk.Queue},
		"a CSINode changes otherwise":                     {fwk.CSINode, migrated("x"), migrated("x"), fwk.QueueSkip},
		"the driver no longer publishes its capacity":     {fwk.CSIDriver, driverWithCapacity(true), driverWithCapacity(false), fwk.Queue},
		"the driver is deleted":                           {fwk.CSIDriver, driverWithCapacity(true), nil, fwk.Queue},
		"the driver starts to publish its capacity":       {fwk.CSIDriver, driverWithCapacity(false), driverWithCapacity(true), fwk.QueueSkip},
		"another driver no longer publishes its capacity": {fwk.CSIDriver, other, otherNot, fwk.QueueSkip},
		"a new storage capacity":                          {fwk.CSIStorageCapacity, nil, storageCapacity("a", "1Gi"), fwk.Queue},
		"more storage capacity":                           {fwk.CSIStorageCapacity, storageCapacity("a", "1Gi"), storageCapacity("a", "2Gi"), fwk.Queue},
		"less storage capacity":                           {fwk.CSIStorageCapacity, storageCapacity("a", "2Gi"), storageCapacity("a", "1Gi"), fwk.QueueSkip},
		"an object of another kind":                       {fwk.CSIStorageCapacity, nil, class, fwk.Queue},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(env *testEnv) {
				events, err := env.EventsToRegister(env.ctx)
				if err != nil {
					env.t.Fatal(err)
				}
				action := fwk.Update
				switch {
				case c.before == nil:
					action = fwk.Add
				case c.after == nil:
					action = fwk.Delete
				}
				n := slices.IndexFunc(events, func(e fwk.ClusterEventWithHint) bool {
					return e.Event.Resource == c.resource && e.Event.ActionType&action == action
				})
				hint := fwk.QueueSkip // unless the plugin registered for the event
				if n >= 0 {
					hint, _ = events[n].QueueingHintFn(klog.Background(), podWithClaims("a"), c.before, c.after)
				}
				env.expect("hint", hint, c.want)
			}, class, fixture.Claim("a", "made").Obj())
		})
	}
}
