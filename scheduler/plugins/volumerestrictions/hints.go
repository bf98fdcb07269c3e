package volumerestrictions

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// EventsToRegister asks for pods and nodes that go, for new nodes, and for claims
// that come. Upstream does not ask for nodes that go, whose pods use claims no
// more.
func (*Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}, QueueingHintFn: isSchedulableAfterPodDeleted},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Delete}, QueueingHintFn: isSchedulableAfterNodeDeleted},
		{Event: fwk.ClusterEvent{Resource: fwk.PersistentVolumeClaim, ActionType: fwk.Add}, QueueingHintFn: isSchedulableAfterPVCAdded},
	}, nil
}

// afterPodDeleted queues the pod when the other one had a disk or a claim that
// it wants. Upstream passes over pods of other namespaces, whose disks conflict
// as well.
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
		// Which claims one pod may use at a time, the next attempt finds out. Filter
		// compares names alone where pods are thought of as on nodes.
		if claim := volume.PersistentVolumeClaim; claim != nil && usesClaim(deleted, claim.ClaimName) {
			return fwk.Queue, nil
		}
	}
	return fwk.QueueSkip, nil
}

// afterNodeDeleted queues the pod when it uses any claim.
func isSchedulableAfterNodeDeleted(_ klog.Logger, pod *v1.Pod, _, _ any) (fwk.QueueingHint, error) {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].PersistentVolumeClaim != nil {
			return fwk.Queue, nil
		}
	}
	return fwk.QueueSkip, nil
}

// afterClaimAdded queues the pod when it uses the claim.
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

// uses says whether a pod uses a claim of this name.
func usesClaim(pod *v1.Pod, claim string) bool {
	for i := range pod.Spec.Volumes {
		if c := pod.Spec.Volumes[i].PersistentVolumeClaim; c != nil && c.ClaimName == claim {
			return true
		}
	}
	return false
}
