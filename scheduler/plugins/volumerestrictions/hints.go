package volumerestrictions

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// EventsToRegister registers pods and nodes that are deleted, and nodes and claims that
// are added. Upstream does not register deletions of nodes, whose pods no longer use
// claims.
func (*Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}, QueueingHintFn: isSchedulableAfterPodDeleted},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Delete}, QueueingHintFn: isSchedulableAfterNodeDeleted},
		{Event: fwk.ClusterEvent{Resource: fwk.PersistentVolumeClaim, ActionType: fwk.Add}, QueueingHintFn: isSchedulableAfterPVCAdded},
	}, nil
}

// isSchedulableAfterPodDeleted requeues the pod when the deleted pod used one of its
// disks or claims. Upstream ignores pods in other namespaces, whose disks conflict as
// well.
func isSchedulableAfterPodDeleted(_ klog.Logger, pod *v1.Pod, oldObj, _ any) (fwk.QueueingHint, error) {
	deleted, _, err := framework.EventObjects[*v1.Pod](oldObj, nil)
	if err != nil {
		return fwk.Queue, err
	}
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if conflictsWithPod(deleted, volume) {
			return fwk.Queue, nil
		}
		// The next attempt checks whether the claim is ReadWriteOncePod. The
		// namespaces are not compared, since AddPod and RemovePod do not either.
		if claim := volume.PersistentVolumeClaim; claim != nil && usesClaim(deleted, claim.ClaimName) {
			return fwk.Queue, nil
		}
	}
	return fwk.QueueSkip, nil
}

// isSchedulableAfterNodeDeleted requeues the pod when it uses a claim.
func isSchedulableAfterNodeDeleted(_ klog.Logger, pod *v1.Pod, _, _ any) (fwk.QueueingHint, error) {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].PersistentVolumeClaim != nil {
			return fwk.Queue, nil
		}
	}
	return fwk.QueueSkip, nil
}

// isSchedulableAfterPVCAdded requeues the pod when it uses the claim.
func isSchedulableAfterPVCAdded(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	_, added, err := framework.EventObjects[*v1.PersistentVolumeClaim](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if added.Namespace == pod.Namespace && usesClaim(pod, added.Name) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// usesClaim reports whether a pod uses a claim of this name.
func usesClaim(pod *v1.Pod, claim string) bool {
	for i := range pod.Spec.Volumes {
		if c := pod.Spec.Volumes[i].PersistentVolumeClaim; c != nil && c.ClaimName == claim {
			return true
		}
	}
	return false
}
