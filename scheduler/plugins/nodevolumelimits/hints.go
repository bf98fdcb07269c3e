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

// EventsToRegister asks for all that gives nodes room or drivers, and for claims
// that come. Upstream leaves out what makes a volume count no more, or with
// another: claims and volumes that change or go, classes, pods that bring a
// volume along, and drivers that need not be on a node any more.
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

// afterNodeUpdated queues the pod when some driver is there now and was not, or
// attaches more to the node than before.
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

// afterDriver queues the pod when the driver need not be where the pod goes any
// more.
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

// afterPodAdded queues the pod when the other one brings one of its claims to a
// node, where it then counts but once. Disks that pods name themselves are told
// apart by the next attempt.
func (p *Plugin) isSchedulableAfterPodAdded(_ klog.Logger, pod *v1.Pod, _, newObj any) (fwk.QueueingHint, error) {
	_, added, err := framework.EventObjects[*v1.Pod](nil, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	for i := range added.Spec.Volumes {
		theirs := &added.Spec.Volumes[i]
		if !p.isAttachable(theirs) {
			continue
		}
		for j := range pod.Spec.Volumes {
			ours := &pod.Spec.Volumes[j]
			if !p.isAttachable(ours) || (theirs.PersistentVolumeClaim != nil || ours.PersistentVolumeClaim != nil) && !sameClaim(added, theirs, pod, ours) {
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

// afterPodDeleted queues the pod when the other one was on a node, or had a node
// promised, and CSI drivers may attach its volumes.
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

// afterClaimAdded queues the pod when it uses the claim.
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

// afterAttachmentDeleted queues the pod when what was detached may be of a driver
// that it needs: whose a claimed volume is, the next attempt finds out.
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
