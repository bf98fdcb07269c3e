package volumezone

import (
	"context"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// EventsToRegister registers nodes and volumes that are added or relabeled, claims, and
// classes with delayed binding.
func (*Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.StorageClass, ActionType: fwk.Add}, QueueingHintFn: isSchedulableAfterStorageClassAdded},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel}},
		{Event: fwk.ClusterEvent{Resource: fwk.PersistentVolumeClaim, ActionType: fwk.Add | fwk.Update}, QueueingHintFn: isSchedulableAfterPersistentVolumeClaimChange},
		{Event: fwk.ClusterEvent{Resource: fwk.PersistentVolume, ActionType: fwk.Add | fwk.Update}, QueueingHintFn: isSchedulableAfterPersistentVolumeChange},
	}, nil
}

// isSchedulableAfterStorageClassAdded requeues the pod when the class binds volumes
// after the first consumer is scheduled.
func isSchedulableAfterStorageClassAdded(_ klog.Logger, _ *v1.Pod, _, newObj any) (fwk.QueueingHint, error) {
	_, added, err := framework.EventObjects[*storagev1.StorageClass](nil, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if mode := added.VolumeBindingMode; mode != nil && *mode == storagev1.VolumeBindingWaitForFirstConsumer {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// isSchedulableAfterPersistentVolumeClaimChange requeues the pod when it uses the
// claim.
func isSchedulableAfterPersistentVolumeClaimChange(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	_, after, err := framework.EventObjects[*v1.PersistentVolumeClaim](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	for i := range pod.Spec.Volumes {
		if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil && claim.ClaimName == after.Name && after.Namespace == pod.Namespace {
			return fwk.Queue, nil
		}
	}
	return fwk.QueueSkip, nil
}

// isSchedulableAfterPersistentVolumeChange requeues the pod when the volume is new or
// its topology changed.
func isSchedulableAfterPersistentVolumeChange(_ klog.Logger, _ *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := framework.EventObjects[*v1.PersistentVolume](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if before != nil && equalTopologies(topologiesOfVolume(before), topologiesOfVolume(after)) {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}
