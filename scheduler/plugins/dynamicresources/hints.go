package dynamicresources

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// EventsToRegister registers changes of claims, of their generation, and of what offers
// devices. Unlike upstream it also registers deletions of ResourceSlices: a pool with one slice
// too many is incomplete, and a request for all devices does not want those of a pool that is gone.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	event := func(resource fwk.EventResource, action fwk.ActionType, hint fwk.QueueingHintFn) fwk.ClusterEventWithHint {
		return fwk.ClusterEventWithHint{Event: fwk.ClusterEvent{Resource: resource, ActionType: action}, QueueingHintFn: hint}
	}
	return []fwk.ClusterEventWithHint{
		event(fwk.Node, fwk.Add|fwk.UpdateNodeLabel|fwk.UpdateNodeAllocatable, nil),
		event(fwk.ResourceClaim, fwk.Add|fwk.Update|fwk.Delete, p.isSchedulableAfterClaimChange),
		event(fwk.TargetPod, fwk.UpdatePodGeneratedResourceClaim, p.isSchedulableAfterTargetPodUpdate),
		event(fwk.DeviceClass, fwk.Add|fwk.Update, nil),
		event(fwk.ResourceSlice, fwk.Add|fwk.Update|fwk.Delete, nil),
	}, nil
}

// isSchedulableAfterClaimChange requeues a pod when devices are given back, and when a
// claim of the pod is created or changes its status. The spec of a claim does not change.
func (p *Plugin) isSchedulableAfterClaimChange(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	if _, unknown := oldObj.(toolscache.DeletedFinalStateUnknown); unknown && newObj == nil {
		return fwk.Queue, nil // it may have had devices
	}
	before, after, err := framework.EventObjects[*resourceapi.ResourceClaim](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if after == nil {
		return queueIf(before.Status.Allocation != nil), nil
	}
	claims, err := p.claimsOf(pod)
	if err != nil {
		return fwk.QueueSkip, nil // the pod has to wait for another claim
	}
	// Where the watch broke meanwhile, one update may give devices back and take others.
	if before != nil && before.Status.Allocation != nil && !equality.Semantic.DeepEqual(before.Status.Allocation, after.Status.Allocation) {
		return fwk.Queue, nil
	}
	if !slices.ContainsFunc(claims, func(c *resourceapi.ResourceClaim) bool { return c.UID == after.UID }) {
		return fwk.QueueSkip, nil
	}
	return queueIf(before == nil || !equality.Semantic.DeepEqual(&before.Status, &after.Status)), nil
}

// isSchedulableAfterTargetPodUpdate requeues the pod when all its claims can be used.
func (p *Plugin) isSchedulableAfterTargetPodUpdate(_ klog.Logger, _ *v1.Pod, _, newObj any) (fwk.QueueingHint, error) {
	_, after, err := framework.EventObjects[*v1.Pod](nil, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	_, err = p.claimsOf(after)
	return queueIf(err == nil), nil
}

func queueIf(worthwhile bool) fwk.QueueingHint {
	if worthwhile {
		return fwk.Queue
	}
	return fwk.QueueSkip
}
