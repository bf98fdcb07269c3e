package noderesources

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// EventsToRegister asks for room: pods that go or shrink, nodes that come or
// grow, and the pod itself asking for less. Upstream also asks for
// DeviceClasses; here none stands behind an extended resource.
func (f *Fit) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{
			Event:          fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete},
			QueueingHintFn: isSchedulableAfterPodDeleted,
		},
		{
			Event:          fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeAllocatable},
			QueueingHintFn: f.isSchedulableAfterNodeChange,
		},
		{
			Event:          fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.UpdatePodScaleDown},
			QueueingHintFn: isSchedulableAfterOtherPodScaleDown,
		},
		{
			Event:          fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.UpdatePodScaleDown},
			QueueingHintFn: isSchedulableAfterTargetPodScaleDown,
		},
	}, nil
}

// afterPodDeleted queues the pod when the other one was on a node, or had a
// node promised.
func isSchedulableAfterPodDeleted(_ klog.Logger, _ *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	deleted, _, err := framework.EventObjects[*v1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if deleted.Spec.NodeName == "" && deleted.Status.NominatedNodeName == "" {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

func isSchedulableAfterTargetPodScaleDown(klog.Logger, *v1.Pod, any, any) (fwk.QueueingHint, error) {
	return fwk.Queue, nil
}

// afterOtherScaledDown queues the pod when one that is on a node, or has a node
// promised, asks for less of something that the pod asks for.
func isSchedulableAfterOtherPodScaleDown(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := framework.EventObjects[*v1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if after.Spec.NodeName == "" && after.Status.NominatedNodeName == "" {
		return fwk.QueueSkip, nil
	}
	had, has := runningPodRequest(before), runningPodRequest(after)
	for name, quantity := range framework.RunningPodRequests(pod, nil) {
		if !quantity.IsZero() && resourceAmount(&had, name) > resourceAmount(&has, name) {
			return fwk.Queue, nil
		}
	}
	return fwk.QueueSkip, nil
}

// runningRequest is what a pod takes from its node, a resize included.
func runningPodRequest(pod *v1.Pod) framework.Resource {
	var request framework.Resource
	request.SetMaxResource(framework.RunningPodRequests(pod, nil))
	return request
}

// afterNode queues the pod when the node, empty, has room for it, and is new
// or has more of what the pod asks for. Other than upstream it ignores what
// Filter ignores.
func (f *Fit) isSchedulableAfterNodeChange(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := framework.EventObjects[*v1.Node](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	wants := newPodRequest(pod, f.ignored)
	if after == nil || len(wants.insufficientResources(emptyNode(after)).reasons) > 0 {
		return fwk.QueueSkip, nil
	}
	if before == nil || wants.hasIncreased(emptyNode(before).GetAllocatable(), emptyNode(after).GetAllocatable()) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

func emptyNode(node *v1.Node) *framework.NodeInfo {
	info := framework.NewNodeInfo()
	info.SetNode(node)
	return info
}

// grew reports whether a node offers more places, or more of what is wanted.
func (d *podRequest) hasIncreased(before, after fwk.Resource) bool {
	if after.GetAllowedPodNumber() > before.GetAllowedPodNumber() ||
		d.cpu > 0 && after.GetMilliCPU() > before.GetMilliCPU() ||
		d.memory > 0 && after.GetMemory() > before.GetMemory() ||
		d.ephemeralStorage > 0 && after.GetEphemeralStorage() > before.GetEphemeralStorage() {
		return true
	}
	for _, scalar := range d.scalars {
		if after.GetScalarResources()[scalar.name] > before.GetScalarResources()[scalar.name] {
			return true
		}
	}
	return false
}
