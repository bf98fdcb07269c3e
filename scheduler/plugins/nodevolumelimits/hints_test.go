package nodevolumelimits

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/test/fixture"
)

func TestHints(t *testing.T) {
	p := newPlugin(t)
	strictly := func(prevents bool) *storagev1.CSIDriver {
		return &storagev1.CSIDriver{Spec: storagev1.CSIDriverSpec{PreventPodSchedulingIfMissing: &prevents}}
	}
	claimed, other := fixture.Pod("a").Claim("data"), fixture.Pod("b").Claim("logs")
	for sentence, c := range map[string]struct {
		pod           *fixture.PodBuilder
		hint          fwk.QueueingHintFn
		before, after any
		want          fwk.QueueingHint
	}{
		"by a driver that attaches more":              {claimed, isSchedulableAfterCSINodeUpdated, csiNodeWithLimits(map[string]int32{driver: 1}), csiNodeWithLimits(map[string]int32{driver: 2}), fwk.Queue},
		"by a driver that has no limit any more":      {claimed, isSchedulableAfterCSINodeUpdated, csiNodeWithLimits(map[string]int32{driver: 1}), csiNodeWithLimits(map[string]int32{driver: -1}), fwk.Queue},
		"by a driver that comes":                      {claimed, isSchedulableAfterCSINodeUpdated, csiNodeWithLimits(nil), csiNodeWithLimits(map[string]int32{driver: 1}), fwk.Queue},
		"by a driver that goes with its limit":        {claimed, isSchedulableAfterCSINodeUpdated, csiNodeWithLimits(map[string]int32{driver: 1}), csiNodeWithLimits(nil), fwk.Queue},
		"not by one that attaches less":               {claimed, isSchedulableAfterCSINodeUpdated, csiNodeWithLimits(map[string]int32{driver: 2}), csiNodeWithLimits(map[string]int32{driver: 1}), fwk.QueueSkip},
		"not by one that has a limit now":             {claimed, isSchedulableAfterCSINodeUpdated, csiNodeWithLimits(map[string]int32{driver: -1}), csiNodeWithLimits(map[string]int32{driver: 1}), fwk.QueueSkip},
		"by a driver that minds no more":              {claimed, isSchedulableAfterCSIDriverChange, strictly(true), strictly(false), fwk.Queue},
		"by a driver that minded and is gone":         {claimed, isSchedulableAfterCSIDriverChange, strictly(true), nil, fwk.Queue},
		"not by one that minds now":                   {claimed, isSchedulableAfterCSIDriverChange, strictly(false), strictly(true), fwk.QueueSkip},
		"by a pod that brings its claim along":        {claimed, p.isSchedulableAfterPodAdded, nil, fixture.Pod("b").Claim("data").On("n").Obj(), fwk.Queue},
		"not by one with another claim":               {claimed, p.isSchedulableAfterPodAdded, nil, other.Obj(), fwk.QueueSkip},
		"by a pod that leaves with a volume":          {claimed, p.isSchedulableAfterPodDeleted, fixture.Pod("b").Claim("logs").On("n").Obj(), nil, fwk.Queue},
		"by one that was promised a node":             {claimed, p.isSchedulableAfterPodDeleted, fixture.Pod("b").Claim("logs").NominatedNodeName("n").Obj(), nil, fwk.Queue},
		"not by one that was nowhere":                 {claimed, p.isSchedulableAfterPodDeleted, other.Obj(), nil, fwk.QueueSkip},
		"not by one without volumes":                  {claimed, p.isSchedulableAfterPodDeleted, fixture.Pod("b").On("n").Obj(), nil, fwk.QueueSkip},
		"by its claim":                                {claimed, isSchedulableAfterPVCAdded, nil, fixture.Claim("data", "").Obj(), fwk.Queue},
		"by the claim of its ephemeral volume":        {podWithEphemeralVolume("a"), isSchedulableAfterPVCAdded, nil, fixture.Claim("a-v0", "").Obj(), fwk.Queue},
		"not by another claim":                        {claimed, isSchedulableAfterPVCAdded, nil, fixture.Claim("logs", "").Obj(), fwk.QueueSkip},
		"not by a claim of that name elsewhere":       {claimed, isSchedulableAfterPVCAdded, nil, fixture.Claim("shop/data", "").Obj(), fwk.QueueSkip},
		"by what is detached, when it has a claim":    {claimed, p.isSchedulableAfterVolumeAttachmentDeleted, attachment("pv-a", driver, "n"), nil, fwk.Queue},
		"by what is detached by its disk's driver":    {podWithInlineDisk("a", "d"), p.isSchedulableAfterVolumeAttachmentDeleted, attachment("pv-a", migrationDriver, "n"), nil, fwk.Queue},
		"not by what another driver detaches":         {podWithInlineDisk("a", "d"), p.isSchedulableAfterVolumeAttachmentDeleted, attachment("pv-a", driver, "n"), nil, fwk.QueueSkip},
		"not by what is detached, without any volume": {fixture.Pod("a"), p.isSchedulableAfterVolumeAttachmentDeleted, attachment("pv-a", driver, "n"), nil, fwk.QueueSkip},
	} {
		t.Run(sentence, func(t *testing.T) {
			if got, err := c.hint(klog.Background(), c.pod.Obj(), c.before, c.after); got != c.want || err != nil {
				t.Errorf("%v, %v, want %v", got, err, c.want)
			}
		})
	}
	for _, hint := range []fwk.QueueingHintFn{isSchedulableAfterCSINodeUpdated, isSchedulableAfterCSIDriverChange, p.isSchedulableAfterPodAdded, p.isSchedulableAfterPodDeleted, isSchedulableAfterPVCAdded, p.isSchedulableAfterVolumeAttachmentDeleted} {
		if got, err := hint(klog.Background(), &v1.Pod{}, &v1.Node{}, &v1.Node{}); got != fwk.Queue || err == nil {
			t.Errorf("an event about something else: %v, %v", got, err)
		}
	}
}
