package nodevolumelimits

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/test/support/fixture"
)

func TestHints(t *testing.T) {
	p := newPlugin(t)
	csiDriver := func(prevents bool) *storagev1.CSIDriver {
		return &storagev1.CSIDriver{Spec: storagev1.CSIDriverSpec{PreventPodSchedulingIfMissing: &prevents}}
	}
	claimed, other := fixture.Pod("a").Claim("data"), fixture.Pod("b").Claim("logs")
	for name, c := range map[string]struct {
		pod           *fixture.PodBuilder
		hint          fwk.QueueingHintFn
		before, after any
		want          fwk.QueueingHint
	}{
		"the limit of a driver is raised":                    {claimed, isSchedulableAfterCSINodeUpdated, csiNodeWithLimits(map[string]int32{driver: 1}), csiNodeWithLimits(map[string]int32{driver: 2}), fwk.Queue},
		"the limit of a driver is removed":                   {claimed, isSchedulableAfterCSINodeUpdated, csiNodeWithLimits(map[string]int32{driver: 1}), csiNodeWithLimits(map[string]int32{driver: -1}), fwk.Queue},
		"a driver is installed":                              {claimed, isSchedulableAfterCSINodeUpdated, csiNodeWithLimits(nil), csiNodeWithLimits(map[string]int32{driver: 1}), fwk.Queue},
		"a driver with a limit is removed":                   {claimed, isSchedulableAfterCSINodeUpdated, csiNodeWithLimits(map[string]int32{driver: 1}), csiNodeWithLimits(nil), fwk.Queue},
		"the limit of a driver is lowered":                   {claimed, isSchedulableAfterCSINodeUpdated, csiNodeWithLimits(map[string]int32{driver: 2}), csiNodeWithLimits(map[string]int32{driver: 1}), fwk.QueueSkip},
		"a driver gets a limit":                              {claimed, isSchedulableAfterCSINodeUpdated, csiNodeWithLimits(map[string]int32{driver: -1}), csiNodeWithLimits(map[string]int32{driver: 1}), fwk.QueueSkip},
		"a driver no longer prevents scheduling":             {claimed, isSchedulableAfterCSIDriverChange, csiDriver(true), csiDriver(false), fwk.Queue},
		"a driver that prevents scheduling is deleted":       {claimed, isSchedulableAfterCSIDriverChange, csiDriver(true), nil, fwk.Queue},
		"a driver starts to prevent scheduling":              {claimed, isSchedulableAfterCSIDriverChange, csiDriver(false), csiDriver(true), fwk.QueueSkip},
		"a pod with the same claim is added":                 {claimed, p.isSchedulableAfterPodAdded, nil, fixture.Pod("b").Claim("data").On("n").Obj(), fwk.Queue},
		"a pod with another claim is added":                  {claimed, p.isSchedulableAfterPodAdded, nil, other.Obj(), fwk.QueueSkip},
		"a pod with a volume is deleted":                     {claimed, p.isSchedulableAfterPodDeleted, fixture.Pod("b").Claim("logs").On("n").Obj(), nil, fwk.Queue},
		"a nominated pod with a volume is deleted":           {claimed, p.isSchedulableAfterPodDeleted, fixture.Pod("b").Claim("logs").NominatedNodeName("n").Obj(), nil, fwk.Queue},
		"a pending pod is deleted":                           {claimed, p.isSchedulableAfterPodDeleted, other.Obj(), nil, fwk.QueueSkip},
		"a pod without volumes is deleted":                   {claimed, p.isSchedulableAfterPodDeleted, fixture.Pod("b").On("n").Obj(), nil, fwk.QueueSkip},
		"its claim is added":                                 {claimed, isSchedulableAfterPVCAdded, nil, fixture.Claim("data", "").Obj(), fwk.Queue},
		"the claim of its ephemeral volume is added":         {podWithEphemeralVolume("a"), isSchedulableAfterPVCAdded, nil, fixture.Claim("a-v0", "").Obj(), fwk.Queue},
		"another claim is added":                             {claimed, isSchedulableAfterPVCAdded, nil, fixture.Claim("logs", "").Obj(), fwk.QueueSkip},
		"a claim of that name in another namespace is added": {claimed, isSchedulableAfterPVCAdded, nil, fixture.Claim("shop/data", "").Obj(), fwk.QueueSkip},
		"a volume is detached, and the pod has a claim":      {claimed, p.isSchedulableAfterVolumeAttachmentDeleted, attachment("pv-a", driver, "n"), nil, fwk.Queue},
		"a volume is detached by the driver of its disk":     {podWithInlineDisk("a", "d"), p.isSchedulableAfterVolumeAttachmentDeleted, attachment("pv-a", migrationDriver, "n"), nil, fwk.Queue},
		"a volume is detached by another driver":             {podWithInlineDisk("a", "d"), p.isSchedulableAfterVolumeAttachmentDeleted, attachment("pv-a", driver, "n"), nil, fwk.QueueSkip},
		"a volume is detached, and the pod has no volume":    {fixture.Pod("a"), p.isSchedulableAfterVolumeAttachmentDeleted, attachment("pv-a", driver, "n"), nil, fwk.QueueSkip},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := c.hint(klog.Background(), c.pod.Obj(), c.before, c.after); got != c.want || err != nil {
				t.Errorf("%v, %v, want %v", got, err, c.want)
			}
		})
	}
	for _, hint := range []fwk.QueueingHintFn{isSchedulableAfterCSINodeUpdated, isSchedulableAfterCSIDriverChange, p.isSchedulableAfterPodAdded, p.isSchedulableAfterPodDeleted, isSchedulableAfterPVCAdded, p.isSchedulableAfterVolumeAttachmentDeleted} {
		if got, err := hint(klog.Background(), &v1.Pod{}, &v1.Node{}, &v1.Node{}); got != fwk.Queue || err == nil {
			t.Errorf("an object of another kind: %v, %v", got, err)
		}
	}
}
