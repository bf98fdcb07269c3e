package eventhandlers

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/podgroups"
)

var (
	assignedPodAdd    = fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Add}
	assignedPodDelete = fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}
	podTerminating    = fwk.ClusterEvent{Resource: framework.TerminatingPod, ActionType: fwk.Update}
)

func assigned(pod *v1.Pod) bool { return pod.Spec.NodeName != "" }

func terminating(pod *v1.Pod) bool { return pod.DeletionTimestamp != nil }

func (h *EventHandlers) podAdded(pod *v1.Pod) {
	defer h.observeHandling(h.now(), observersFor(pod).added)
	ctx := h.options.context()
	if assigned(pod) {
		h.podAssigned(ctx, pod)
		return
	}
	h.options.add(ctx, pod)
}

// podAssigned handles a pod that has a node in the API server.
func (h *EventHandlers) podAssigned(ctx context.Context, pod *v1.Pod) {
	h.options.Cache.SetPod(pod)
	h.options.Cache.DeleteNominatedPodIfExists(pod)
	h.options.Queue.Delete(pod.UID)
	h.podGone(pod)
	h.options.Queue.Event(ctx, assignedPodAdd, nil, pod, nil)
	if key, isMember := podgroups.KeyOf(pod); isMember {
		h.groupChanged(key)
	}
}

func (h *EventHandlers) podUpdated(oldPod, newPod *v1.Pod) {
	defer h.observeHandling(h.now(), observersFor(oldPod).updated)
	ctx := h.options.context()
	switch {
	case oldPod.UID != newPod.UID:
		// The watch missed the deletion.
		h.podDeleted(oldPod)
		h.podAdded(newPod)
	case assigned(oldPod):
		h.leaveOldGroup(oldPod, newPod)
		h.options.Cache.SetPod(newPod)
		for _, change := range podEvents(oldPod, newPod, fwk.AssignedPod) {
			h.options.Queue.Event(ctx, change, oldPod, newPod, nil)
		}
		h.options.memberMoved(ctx, assignedPodAdd, oldPod, newPod)
		if newPod.DeletionTimestamp != nil && oldPod.DeletionTimestamp == nil {
			h.options.Queue.Event(ctx, podTerminating, oldPod, newPod, nil)
		}
	case assigned(newPod):
		h.leaveOldGroup(oldPod, newPod)
		nominated := h.options.nominatedNodes(oldPod)
		h.podAssigned(ctx, newPod)
		h.options.nominationsFreed(ctx, oldPod, nominated, newPod.Spec.NodeName)
	case oldPod.ResourceVersion != newPod.ResourceVersion:
		h.options.Binding.Observe(newPod)
		h.options.update(ctx, oldPod, newPod)
	}
}

// leaveOldGroup removes a pod with a node from the group that it does not name any more.
func (h *EventHandlers) leaveOldGroup(oldPod, newPod *v1.Pod) {
	was, wasMember := podgroups.KeyOf(oldPod)
	if is, _ := podgroups.KeyOf(newPod); wasMember && is != was {
		h.options.Cache.Groups().RemovePod(oldPod)
	}
}

func (h *EventHandlers) podDeleted(pod *v1.Pod) {
	defer h.observeHandling(h.now(), observersFor(pod).deleted)
	ctx := h.options.context()
	nominated := h.options.nominatedNodes(pod)
	h.options.Cache.Groups().RemovePod(pod)
	// The order matters: the pod is removed from the queue before its wait is
	// rejected, because a pod that reaches Permit now checks the queue.
	h.options.Queue.Delete(pod.UID)
	h.options.RejectWaitingPod(pod)
	h.options.Cache.DeleteNominatedPodIfExists(pod)
	h.podGone(pod)
	// A pod that was only assumed frees resources, too. Its last known version may
	// have no node, which no hint would take for freed resources.
	freed := pod
	if placed := h.options.Cache.Pod(pod.UID); placed != nil && !assigned(pod) {
		freed = placed
	}
	if h.options.Cache.RemovePod(pod) || assigned(pod) {
		h.options.Queue.Event(ctx, assignedPodDelete, freed, nil, nil)
	} else {
		h.options.nominationsFreed(ctx, pod, nominated, "")
	}
}

// podGone is called for a pod that was deleted or has a node.
func (h *EventHandlers) podGone(pod *v1.Pod) {
	h.options.Binding.Forget(pod.UID)
	switch explanations := h.options.Explanations; {
	case explanations == nil:
	case pod.Spec.NodeName != "" && h.options.Exists(pod):
		explanations.PodBound(pod.Namespace, pod.Name, pod.UID)
	default:
		explanations.PodDeleted(pod.Namespace, pod.Name, pod.UID)
	}
}
