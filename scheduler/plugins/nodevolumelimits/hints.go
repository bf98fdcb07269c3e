package nodevolumelimits

import (
	"context"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// EventsToRegister registers events that raise a limit, install a driver or add a
// claim. Unlike upstream it also registers events that change whether, or for which
// driver, a volume counts: changed and deleted claims and volumes, deleted classes,
// added pods that use the same volume, and drivers that pods no longer require on their
// node.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}},
		{Event: fwk.ClusterEvent{Resource: fwk.CSINode, ActionType: fwk.Add | fwk.Delete}},
		{Event: fwk.ClusterEvent{Resource: fwk.CSINode, ActionType: fwk.Update}, QueueingHintFn: isSchedulableAfterCSINodeUpdated},
		{Event: fwk.ClusterEvent{Resource: fwk.CSIDriver, ActionType: fwk.Update | fwk.Delete}, QueueingHintFn: isSchedulableAfterCSIDriverChange},
		{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Add}, QueueingHintFn: p.isSchedulableAfterPodAdded},
		{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}, QueueingHintFn: p.isSchedulableAfterPodDeleted},
		{Event: fwk.ClusterEvent{Resource: fwk.PersistentVolumeClaim, ActionType: fwk.Add}, QueueingHintFn: isSchedulableAfterPVCAdded},
		{Event: fwk.ClusterEvent{Resource: fwk.PersistentVolumeClaim, ActionType: fwk.Update | fwk.Delete}},
		{Event: fwk.ClusterEvent{Resource: fwk.PersistentVolume, ActionType: fwk.Add | fwk.Update | fwk.Delete}},
		{Event: fwk.ClusterEvent{Resource: fwk.StorageClass, ActionType: fwk.Delete}},
		{Event: fwk.ClusterEvent{Resource: fwk.VolumeAttachment, ActionType: fwk.Delete}, QueueingHintFn: p.isSchedulableAfterVolumeAttachmentDeleted},
	}, nil
}

// isSchedulableAfterCSINodeUpdated requeues the pod when a driver was installed on the
// node or its limit was raised or removed.
func isSchedulableAfterCSINodeUpdated(_ klog.Logger, _ *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := framework.EventObjects[*storagev1.CSINode](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	for i := range after.Spec.Drivers {
		if !hasDriver(before, after.Spec.Drivers[i].Name) {
			return fwk.Queue, nil
		}
	}
	is := attachLimits(after)
	for driver, was := range attachLimits(before) {
		if limit, limited := is[driver]; !limited || limit > was {
			return fwk.Queue, nil
		}
	}
	return fwk.QueueSkip, nil
}

// isSchedulableAfterCSIDriverChange requeues the pod when the driver no longer prevents
// scheduling to nodes without it.
func isSchedulableAfterCSIDriverChange(_ klog.Logger, _ *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := framework.EventObjects[*storagev1.CSIDriver](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if preventsSchedulingIfMissing(before) && (after == nil || !preventsSchedulingIfMissing(after)) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// isSchedulableAfterPodAdded requeues the pod when the added pod uses one of its
// claims: on that node the volume counts only once. The hint does not compare inline
// volumes; the next attempt does.
func (p *Plugin) isSchedulableAfterPodAdded(_ klog.Logger, pod *v1.Pod, _, newObj any) (fwk.QueueingHint, error) {
	_, added, err := framework.EventObjects[*v1.Pod](nil, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	for i := range added.Spec.Volumes {
		addedVolume := &added.Spec.Volumes[i]
		if !p.isAttachable(addedVolume) {
			continue
		}
		for j := range pod.Spec.Volumes {
			podVolume := &pod.Spec.Volumes[j]
			if !p.isAttachable(podVolume) || (addedVolume.PersistentVolumeClaim != nil || podVolume.PersistentVolumeClaim != nil) && !sameClaim(added, addedVolume, pod, podVolume) {
				continue
			}
			return fwk.Queue, nil
		}
	}
	return fwk.QueueSkip, nil
}

func sameClaim(a *v1.Pod, x *v1.Volume, b *v1.Pod, y *v1.Volume) bool {
	return a.Namespace == b.Namespace && x.PersistentVolumeClaim != nil && y.PersistentVolumeClaim != nil &&
		x.PersistentVolumeClaim.ClaimName == y.PersistentVolumeClaim.ClaimName
}

// isSchedulableAfterPodDeleted requeues the pod when the deleted pod was assigned to a
// node or nominated for one, and CSI drivers may attach its volumes.
func (p *Plugin) isSchedulableAfterPodDeleted(_ klog.Logger, _ *v1.Pod, oldObj, _ any) (fwk.QueueingHint, error) {
	deleted, _, err := framework.EventObjects[*v1.Pod](oldObj, nil)
	if err != nil {
		return fwk.Queue, err
	}
	if deleted.Spec.NodeName == "" && deleted.Status.NominatedNodeName == "" {
		return fwk.QueueSkip, nil
	}
	if p.hasAttachableVolume(deleted) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// isSchedulableAfterPVCAdded requeues the pod when it uses the claim.
func isSchedulableAfterPVCAdded(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	_, added, err := framework.EventObjects[*v1.PersistentVolumeClaim](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if added.Namespace != pod.Namespace {
		return fwk.QueueSkip, nil
	}
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == added.Name,
			v.PersistentVolumeClaim == nil && v.Ephemeral != nil && ephemeral.VolumeClaimName(pod, v) == added.Name:
			return fwk.Queue, nil
		}
	}
	return fwk.QueueSkip, nil
}

// isSchedulableAfterVolumeAttachmentDeleted requeues the pod when the detached volume
// may be of a driver that the pod needs. The driver of a claimed volume is looked up
// only in the next attempt.
func (p *Plugin) isSchedulableAfterVolumeAttachmentDeleted(logger klog.Logger, pod *v1.Pod, oldObj, _ any) (fwk.QueueingHint, error) {
	deleted, _, err := framework.EventObjects[*storagev1.VolumeAttachment](oldObj, nil)
	if err != nil {
		return fwk.Queue, err
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			return fwk.Queue, nil
		}
		if !p.translator.IsInlineMigratable(v) {
			continue
		}
		translated, err := p.translator.TranslateInTreeInlineVolumeToCSI(logger, v, pod.Namespace)
		if err != nil {
			return fwk.Queue, err
		}
		if translated.Spec.CSI != nil && translated.Spec.CSI.Driver == deleted.Spec.Attacher {
			return fwk.Queue, nil
		}
	}
	return fwk.QueueSkip, nil
}
