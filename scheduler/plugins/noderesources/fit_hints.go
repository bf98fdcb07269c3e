package noderesources

import (
	"context"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// EventsToRegister registers events that free or add resources: assigned pods that are
// deleted or scaled down, nodes that are added or whose allocatable resources change,
// a scale-down of the pod itself, and DeviceClasses that may back a resource of the pod.
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
		{
			Event:          fwk.ClusterEvent{Resource: fwk.DeviceClass, ActionType: fwk.Add | fwk.Update},
			QueueingHintFn: isSchedulableAfterDeviceClassChange,
		},
	}, nil
}

// isSchedulableAfterPodDeleted requeues the pod when the deleted pod was assigned to a
// node or nominated for one.
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

// isSchedulableAfterOtherPodScaleDown requeues the pod when another pod, which is
// assigned to a node or nominated for one, requests less of a resource that the pod
// requests.
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

// runningPodRequest returns what a pod uses on its node, with a resize in progress
// included.
func runningPodRequest(pod *v1.Pod) framework.Resource {
	var request framework.Resource
	request.SetMaxResource(framework.RunningPodRequests(pod, nil))
	return request
}

// isSchedulableAfterNodeChange requeues the pod when the node would fit it if it were
// empty, and is new or has more of a resource that the pod requests. Unlike upstream it
// ignores the resources that Filter ignores.
func (f *Fit) isSchedulableAfterNodeChange(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := framework.EventObjects[*v1.Node](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	request := f.newPodRequest(pod)
	if after == nil || len(request.insufficientResources(emptyNode(after)).reasons) > 0 {
		return fwk.QueueSkip, nil
	}
	if before == nil || request.hasIncreased(emptyNode(before).GetAllocatable(), emptyNode(after).GetAllocatable()) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// isSchedulableAfterDeviceClassChange requeues the pod when a class begins to back a
// resource that the pod requests.
func isSchedulableAfterDeviceClassChange(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := framework.EventObjects[*resourceapi.DeviceClass](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if after == nil {
		return fwk.QueueSkip, nil
	}
	requests := computePodResourceRequest(pod).ScalarResources
	if _, requested := requests[v1.ResourceName(resourceapi.ResourceDeviceClassPrefix+after.Name)]; requested && before == nil {
		return fwk.Queue, nil
	}
	name := after.Spec.ExtendedResourceName
	if name == nil || before != nil && before.Spec.ExtendedResourceName != nil && *before.Spec.ExtendedResourceName == *name {
		return fwk.QueueSkip, nil
	}
	if _, requested := requests[v1.ResourceName(*name)]; requested {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

func emptyNode(node *v1.Node) *framework.NodeInfo {
	info := framework.NewNodeInfo()
	info.SetNode(node)
	return info
}

// hasIncreased reports whether a node allows more pods than before, or has more of a
// requested resource.
func (d *podRequest) hasIncreased(before, after fwk.Resource) bool {
	if after.GetAllowedPodNumber() > before.GetAllowedPodNumber() ||
		d.cpu > 0 && after.GetMilliCPU() > before.GetMilliCPU() ||
		d.memory > 0 && after.GetMemory() > before.GetMemory() ||
		d.ephemeralStorage > 0 && after.GetEphemeralStorage() > before.GetEphemeralStorage() {
		return true
	}
	for i := range d.scalars {
		scalar := &d.scalars[i]
		if after.GetScalarResources()[scalar.name] > before.GetScalarResources()[scalar.name] || scalar.areDevices(after) {
			return true
		}
	}
	return false
}
