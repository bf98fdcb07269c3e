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

func (in *EventHandlers) podAdded(pod *v1.Pod) {
	defer in.observeHandling(in.now(), observersFor(pod).added)
	ctx := in.context()
	if assigned(pod) {
		in.podAssigned(ctx, pod)
		return
	}
	in.AddUnscheduledPod(ctx, pod)
}

// Waits takes a pod that has no node yet.
func (in *EventHandlers) AddUnscheduledPod(ctx context.Context, pod *v1.Pod) {
	if _, assumed := in.options.Cache.AssumedNode(pod.UID); assumed {
		return
	}
	in.options.Queue.Add(ctx, pod)
	in.addNominationIfServed(pod)
}

// WaitsNot takes back that a pod waits.
func (in *EventHandlers) RemoveUnscheduledPod(pod *v1.Pod) {
	in.options.Queue.Delete(pod.UID)
	in.options.Cache.DeleteNominatedPodIfExists(pod)
}

// nominated keeps the promise of room that a waiting pod's status holds.
func (in *EventHandlers) addNominationIfServed(pod *v1.Pod) {
	if in.options.Queue.Serves(pod.Spec.SchedulerName) {
		in.AddNomination(pod)
	}
}

// Promised keeps the promise of room that the status of a pod holds whose
// profile is served, or about to be.
func (in *EventHandlers) AddNomination(pod *v1.Pod) {
	if pod.Status.NominatedNodeName == "" {
		return
	}
	if info, _ := framework.NewPodInfo(pod); info != nil {
		in.options.Cache.AddNominatedPod(in.options.Log, info, nil)
	}
}

// confirmed takes a pod that the API server holds as assigned.
func (in *EventHandlers) podAssigned(ctx context.Context, pod *v1.Pod) {
	in.options.Cache.SetPod(pod)
	in.options.Cache.DeleteNominatedPodIfExists(pod)
	in.options.Queue.Delete(pod.UID)
	in.options.OnPodGone(pod)
	in.options.Queue.Event(ctx, assignedPodAdd, nil, pod, nil)
}

func (in *EventHandlers) podUpdated(oldPod, newPod *v1.Pod) {
	defer in.observeHandling(in.now(), observersFor(oldPod).updated)
	ctx := in.context()
	switch {
	case oldPod.UID != newPod.UID:
		// The deletion in between was not seen.
		in.podDeleted(oldPod)
		in.podAdded(newPod)
	case assigned(oldPod):
		in.options.Cache.SetPod(newPod)
		for _, change := range podEvents(oldPod, newPod, fwk.AssignedPod) {
			in.options.Queue.Event(ctx, change, oldPod, newPod, nil)
		}
		if newPod.DeletionTimestamp != nil && oldPod.DeletionTimestamp == nil {
			in.options.Queue.Event(ctx, podTerminating, oldPod, newPod, nil)
		}
	case assigned(newPod):
		had := in.nominatedNodes(oldPod)
		in.podAssigned(ctx, newPod)
		in.nominationsFreed(ctx, oldPod, had, newPod.Spec.NodeName)
	case oldPod.ResourceVersion != newPod.ResourceVersion:
		in.options.OnUnscheduledPodUpdate(newPod)
		in.UpdateUnscheduledPod(ctx, oldPod, newPod)
	}
}

// WaitsAs takes a newer version of a pod that has no node yet.
func (in *EventHandlers) UpdateUnscheduledPod(ctx context.Context, oldPod, newPod *v1.Pod) {
	changes := podEvents(oldPod, newPod, fwk.TargetPod)
	if _, assumed := in.options.Cache.AssumedNode(newPod.UID); assumed {
		// Should the pod come back, it comes back as it is now.
		if !fault.ComesBackAsItWas {
			in.options.Queue.UpdateKnown(ctx, oldPod, newPod, changes...)
		}
		// On its way to a node it is told to stop only when it is deleted.
		if newPod.DeletionTimestamp != nil && oldPod.DeletionTimestamp == nil {
			in.RejectWaitingPod(newPod)
		}
		return
	}
	in.options.Queue.Update(ctx, oldPod, newPod, changes...)
	had := in.nominatedNodes(oldPod)
	if info, _ := framework.NewPodInfo(newPod); info != nil && in.options.Queue.Serves(newPod.Spec.SchedulerName) {
		in.options.Cache.UpdateNominatedPod(in.options.Log, oldPod, info)
	} else if (terminating(newPod) || oldPod.Status.NominatedNodeName != newPod.Status.NominatedNodeName) && !fault.PromiseOutlivesProfile {
		// A promise outlives its profile, but not what its pod's status says.
		in.options.Cache.DeleteNominatedPodIfExists(newPod)
	}
	keeps := cmp.Or(in.options.Cache.NominatedNode(newPod.UID), newPod.Status.NominatedNodeName)
	if terminating(newPod) {
		keeps = "" // whatever its status says: it will never take its room
	}
	if len(had) > 0 && !in.nominationsFreed(ctx, oldPod, had, keeps) {
		in.nominatedPodUpdated(ctx, oldPod, newPod)
	}
}

// promises are the nodes where room is or was kept for a pod that waits: it may
// be kept before the pod's status says so, and be free before it says no more.
func (in *EventHandlers) nominatedNodes(pod *v1.Pod) []string {
	kept, told := in.options.Cache.NominatedNode(pod.UID), pod.Status.NominatedNodeName
	if kept == told {
		told = ""
	}
	if fault.SilentPromiseEnds && kept != pod.Status.NominatedNodeName {
		kept = ""
	}
	return slices.DeleteFunc([]string{kept, told}, func(node string) bool { return node == "" })
}

// returned tells of the room that was kept for a pod and is not any more. It
// reports whether there was any.
func (in *EventHandlers) nominationsFreed(ctx context.Context, pod *v1.Pod, had []string, keeps string) bool {
	any := false
	for _, node := range had {
		if node != keeps {
			any = true
			in.NominationFreed(ctx, pod, node)
		}
	}
	return any
}

func (in *EventHandlers) podDeleted(pod *v1.Pod) {
	defer in.observeHandling(in.now(), observersFor(pod).deleted)
	ctx := in.context()
	had := in.nominatedNodes(pod)
	// First it is gone, then it stops waiting: who comes to Permit now looks
	// whether it is gone.
	in.options.Queue.Delete(pod.UID)
	in.RejectWaitingPod(pod)
	in.options.Cache.DeleteNominatedPodIfExists(pod)
	in.options.OnPodGone(pod)
	// A pod that was only assumed leaves room as well. The last that was heard
	// of it may be that it has no node, and nobody would take that for news.
	left := pod
	if placed := in.options.Cache.Pod(pod.UID); placed != nil && !assigned(pod) && !fault.NowhereDeleted {
		left = placed
	}
	if in.options.Cache.RemovePod(pod) || assigned(pod) {
		in.options.Queue.Event(ctx, assignedPodDelete, left, nil, nil)
	} else {
		in.nominationsFreed(ctx, pod, had, "")
	}
}

// RoomReturned wakes pods that may take the room on node that was promised to
// pod: those of no higher priority, since the others could always have had it,
// as could the pod itself.
func (in *EventHandlers) NominationFreed(ctx context.Context, pod *v1.Pod, node string) {
	if pod.Status.NominatedNodeName != node {
		// Hints pass over a pod that never had room.
		told := *pod
		told.Status.NominatedNodeName = node
		pod = &told
	}
	priority := corev1.PodPriority(pod)
	in.options.Queue.Event(ctx, assignedPodDelete, pod, nil, func(other *v1.Pod) bool {
		return other.UID != pod.UID && corev1.PodPriority(other) <= priority
	})
}

// promiseChanged wakes pods to which it matters what a pod is like that room is
// promised to: those of no higher priority, but not the pod itself.
func (in *EventHandlers) nominatedPodUpdated(ctx context.Context, oldPod, newPod *v1.Pod) {
	priority := corev1.PodPriority(newPod)
	for _, change := range podEvents(oldPod, newPod, fwk.AssignedPod) {
		in.options.Queue.Event(ctx, change, oldPod, newPod, func(other *v1.Pod) bool {
			return other.UID != newPod.UID && corev1.PodPriority(other) <= priority
		})
	}
}

// StopWaiting ends the wait at Permit of a pod that is deleted, if it waits
// there.
func (in *EventHandlers) RejectWaitingPod(pod *v1.Pod) {
	if waiting := in.options.WaitingPods.Get(pod.UID); waiting != nil && !fault.DeletedWaitsOn {
		waiting.Reject("", "the pod was deleted")
	}
}
