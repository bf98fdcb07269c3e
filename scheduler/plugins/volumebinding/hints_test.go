package volumebinding

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/test/fixture"
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
		"a new class":                               {fwk.StorageClass, nil, class, fwk.Queue},
		"a class allows other nodes":                {fwk.StorageClass, class, allows, fwk.Queue},
		"a class changes in something else":         {fwk.StorageClass, class, class, fwk.QueueSkip},
		"the pod's claim":                           {fwk.PersistentVolumeClaim, nil, fixture.Claim("a", "made").Obj(), fwk.Queue},
		"another claim":                             {fwk.PersistentVolumeClaim, nil, fixture.Claim("b", "made").Obj(), fwk.QueueSkip},
		"a claim of that name elsewhere":            {fwk.PersistentVolumeClaim, nil, fixture.Claim("else/a", "made").Obj(), fwk.QueueSkip},
		"a driver's node is new":                    {fwk.CSINode, nil, migrated(""), fwk.Queue},
		"a driver took over":                        {fwk.CSINode, migrated(""), migrated("x"), fwk.Queue},
		"a driver's node changes in something else": {fwk.CSINode, migrated("x"), migrated("x"), fwk.QueueSkip},
		"the driver stops counting":                 {fwk.CSIDriver, driverWithCapacity(true), driverWithCapacity(false), fwk.Queue},
		"the driver is gone":                        {fwk.CSIDriver, driverWithCapacity(true), nil, fwk.Queue},
		"the driver begins to count":                {fwk.CSIDriver, driverWithCapacity(false), driverWithCapacity(true), fwk.QueueSkip},
		"another driver stops counting":             {fwk.CSIDriver, other, otherNot, fwk.QueueSkip},
		"there is somewhere new":                    {fwk.CSIStorageCapacity, nil, storageCapacity("a", "1Gi"), fwk.Queue},
		"there is more":                             {fwk.CSIStorageCapacity, storageCapacity("a", "1Gi"), storageCapacity("a", "2Gi"), fwk.Queue},
		"there is less":                             {fwk.CSIStorageCapacity, storageCapacity("a", "2Gi"), storageCapacity("a", "1Gi"), fwk.QueueSkip},
		"what is no such object":                    {fwk.CSIStorageCapacity, nil, class, fwk.Queue},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(w *testEnv) {
				events, err := w.EventsToRegister(w.ctx)
				if err != nil {
					w.t.Fatal(err)
				}
				n := slices.IndexFunc(events, func(e fwk.ClusterEventWithHint) bool { return e.Event.Resource == c.resource })
				hint, _ := events[n].QueueingHintFn(klog.Background(), podWithClaims("a"), c.before, c.after)
				w.expect("hint", hint, c.want)
			}, class, fixture.Claim("a", "made").Obj())
		})
	}
}
