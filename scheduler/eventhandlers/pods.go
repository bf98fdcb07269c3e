package eventhandlers

import (
	"cmp"
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

var (
	assignedPodAdd    = fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Add}
	assignedPodDelete = fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}
	podTerminating    = fwk.ClusterEvent{Resource: framework.TerminatingPod, ActionType: fwk.Update}
)

func assigned(pod *v1.Pod) bool { return pod.Spec.NodeName != "" }

func terminating(pod *v1.Pod) bool { return pod.DeletionTimestamp != nil && !fault.DoomedPromised }

func (h *EventHandlers) podAdded(pod *v1.Pod) {
	defer h.observeHandling(h.now(), observersFor(pod).added)
	ctx := h.context()
	if assigned(pod) {
		h.podAssigned(ctx, pod)
		return
	}
	h.AddUnscheduledPod(ctx, pod)
}

// AddUnscheduledPod adds a pod that has no node to the queue, and its nomination to
// the cache. A pod that is assumed already is ignored.
func (h *EventHandlers) AddUnscheduledPod(ctx context.Context, pod *v1.Pod) {
	if _, assumed := h.options.Cache.AssumedNode(pod.UID); assumed {
		return
	}
	h.options.Queue.Add(ctx, pod)
	h.addNominationIfServed(pod)
}

// RemoveUnscheduledPod undoes AddUnscheduledPod.
func (h *EventHandlers) RemoveUnscheduledPod(pod *v1.Pod) {
	h.options.Queue.Delete(pod.UID)
	h.options.Cache.DeleteNominatedPodIfExists(pod)
}

// addNominationIfServed is AddNomination for a pod whose profile is served.
func (h *EventHandlers) addNominationIfServed(pod *v1.Pod) {
	if h.options.Queue.Serves(pod.Spec.SchedulerName) {
		h.AddNomination(pod)
	}
}

// AddNomination adds the nomination in the status of a pod, if there is one, to the
// cache. The pod's profile must be served, or about to be.
func (h *EventHandlers) AddNomination(pod *v1.Pod) {
	if pod.Status.NominatedNodeName == "" {
		return
	}
	if info, _ := framework.NewPodInfo(pod); info != nil {
		h.options.Cache.AddNominatedPod(h.options.Log, info, nil)
	}
}

// podAssigned handles a pod that has a node in the API server.
func (h *EventHandlers) podAssigned(ctx context.Context, pod *v1.Pod) {
	h.options.Cache.SetPod(pod)
	h.options.Cache.DeleteNominatedPodIfExists(pod)
	h.options.Queue.Delete(pod.UID)
	h.options.OnPodGone(pod)
	h.options.Queue.Event(ctx, assignedPodAdd, nil, pod, nil)
}

func (h *EventHandlers) podUpdated(oldPod, newPod *v1.Pod) {
	defer h.observeHandling(h.now(), observersFor(oldPod).updated)
	ctx := h.context()
	switch {
	case oldPod.UID != newPod.UID:
		// The watch missed the deletion.
		h.podDeleted(oldPod)
		h.podAdded(newPod)
	case assigned(oldPod):
		h.options.Cache.SetPod(newPod)
		for _, change := range podEvents(oldPod, newPod, fwk.AssignedPod) {
			h.options.Queue.Event(ctx, change, oldPod, newPod, nil)
		}
		if newPod.DeletionTimestamp != nil && oldPod.DeletionTimestamp == nil {
			h.options.Queue.Event(ctx, podTerminating, oldPod, newPod, nil)
		}
	case assigned(newPod):
		nominated := h.nominatedNodes(oldPod)
		h.podAssigned(ctx, newPod)
		h.nominationsFreed(ctx, oldPod, nominated, newPod.Spec.NodeName)
	case oldPod.ResourceVersion != newPod.ResourceVersion:
		h.options.OnUnscheduledPodUpdate(newPod)
		h.UpdateUnscheduledPod(ctx, oldPod, newPod)
	}
}

// UpdateUnscheduledPod handles a newer version of a pod that has no node.
func (h *EventHandlers) UpdateUnscheduledPod(ctx context.Context, oldPod, newPod *v1.Pod) {
	changes := podEvents(oldPod, newPod, fwk.TargetPod)
	if _, assumed := h.options.Cache.AssumedNode(newPod.UID); assumed {
		// If the binding fails, the pod is requeued in its newest version.
		if !fault.ComesBackAsItWas {
			h.options.Queue.UpdateKnown(ctx, oldPod, newPod, changes...)
		}
		// The binding cycle goes on unless the pod is being deleted.
		if newPod.DeletionTimestamp != nil && oldPod.DeletionTimestamp == nil {
			h.RejectWaitingPod(newPod)
		}
		return
	}
	h.options.Queue.Update(ctx, oldPod, newPod, changes...)
	nominated := h.nominatedNodes(oldPod)
	if info, _ := framework.NewPodInfo(newPod); info != nil && h.options.Queue.Serves(newPod.Spec.SchedulerName) {
		h.options.Cache.UpdateNominatedPod(h.options.Log, oldPod, info)
	} else if (terminating(newPod) || oldPod.Status.NominatedNodeName != newPod.Status.NominatedNodeName) && !fault.PromiseOutlivesProfile {
		// A nomination outlives its profile, but not the pod's status.
		h.options.Cache.DeleteNominatedPodIfExists(newPod)
	}
	kept := cmp.Or(h.options.Cache.NominatedNode(newPod.UID), newPod.Status.NominatedNodeName)
	if terminating(newPod) {
		kept = "" // whatever its status says: it will not use the node
	}
	if len(nominated) > 0 && !h.nominationsFreed(ctx, oldPod, nominated, kept) {
		h.nominatedPodUpdated(ctx, oldPod, newPod)
	}
}

// nominatedNodes returns the nodes on which resources are reserved for a pending
// pod, or were until now: the cache may know a nomination before the pod's status
// shows it, and drop it before the status does.
func (h *EventHandlers) nominatedNodes(pod *v1.Pod) []string {
	inCache, inStatus := h.options.Cache.NominatedNode(pod.UID), pod.Status.NominatedNodeName
	if inCache == inStatus {
		inStatus = ""
	}
	if fault.SilentPromiseEnds && inCache != pod.Status.NominatedNodeName {
		inCache = ""
	}
	return slices.DeleteFunc([]string{inCache, inStatus}, func(node string) bool { return node == "" })
}

// nominationsFreed calls NominationFreed for the nodes that a pod was nominated to,
// except the one in kept. It reports whether there were any.
func (h *EventHandlers) nominationsFreed(ctx context.Context, pod *v1.Pod, nominated []string, kept string) bool {
	found := false
	for _, node := range nominated {
		if node != kept {
			found = true
			h.NominationFreed(ctx, pod, node)
		}
	}
	return found
}

func (h *EventHandlers) podDeleted(pod *v1.Pod) {
	defer h.observeHandling(h.now(), observersFor(pod).deleted)
	ctx := h.context()
	nominated := h.nominatedNodes(pod)
	// The order matters: the pod is removed from the queue before its wait is
	// rejected, because a pod that reaches Permit now checks the queue.
	h.options.Queue.Delete(pod.UID)
	h.RejectWaitingPod(pod)
	h.options.Cache.DeleteNominatedPodIfExists(pod)
	h.options.OnPodGone(pod)
	// A pod that was only assumed frees resources, too. Its last known version may
	// have no node, which no hint would take for freed resources.
	freed := pod
	if placed := h.options.Cache.Pod(pod.UID); placed != nil && !assigned(pod) && !fault.NowhereDeleted {
		freed = placed
	}
	if h.options.Cache.RemovePod(pod) || assigned(pod) {
		h.options.Queue.Event(ctx, assignedPodDelete, freed, nil, nil)
	} else {
		h.nominationsFreed(ctx, pod, nominated, "")
	}
}

// NominationFreed wakes the pods that may use the resources on node that were
// nominated to pod. These are pods of no higher priority: nominations do not block
// the others, nor the pod itself.
func (h *EventHandlers) NominationFreed(ctx context.Context, pod *v1.Pod, node string) {
	if pod.Status.NominatedNodeName != node {
		// Hints ignore the deletion of a pod that has no node.
		nominated := *pod
		nominated.Status.NominatedNodeName = node
		pod = &nominated
	}
	priority := corev1.PodPriority(pod)
	h.options.Queue.Event(ctx, assignedPodDelete, pod, nil, func(other *v1.Pod) bool {
		return other.UID != pod.UID && corev1.PodPriority(other) <= priority
	})
}

// nominatedPodUpdated wakes the pods for which a change of a nominated pod matters:
// those of no higher priority, without the pod itself.
func (h *EventHandlers) nominatedPodUpdated(ctx context.Context, oldPod, newPod *v1.Pod) {
	priority := corev1.PodPriority(newPod)
	for _, change := range podEvents(oldPod, newPod, fwk.AssignedPod) {
		h.options.Queue.Event(ctx, change, oldPod, newPod, func(other *v1.Pod) bool {
			return other.UID != newPod.UID && corev1.PodPriority(other) <= priority
		})
	}
}

// RejectWaitingPod ends the wait on Permit of a deleted pod, if it waits.
func (h *EventHandlers) RejectWaitingPod(pod *v1.Pod) {
	if waiting := h.options.WaitingPods.Get(pod.UID); waiting != nil && !fault.DeletedWaitsOn {
		waiting.Reject("", "the pod was deleted")
	}
}
