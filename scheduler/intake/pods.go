package intake

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

var (
	assignedPodAdd    = fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Add}
	assignedPodDelete = fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}
)

func assigned(pod *v1.Pod) bool { return pod.Spec.NodeName != "" }

func (in *Intake) podAdded(pod *v1.Pod) {
	ctx := in.context()
	if assigned(pod) {
		in.confirmed(ctx, pod)
		return
	}
	in.Waits(ctx, pod)
}

// Waits takes a pod that has no node yet.
func (in *Intake) Waits(ctx context.Context, pod *v1.Pod) {
	if _, assumed := in.options.Cache.Assumed(pod.UID); assumed {
		return
	}
	in.options.Queue.Add(ctx, pod)
	in.nominated(pod)
}

// WaitsNot takes back that a pod waits.
func (in *Intake) WaitsNot(pod *v1.Pod) {
	in.options.Queue.Delete(pod.UID)
	in.options.Cache.DeleteNominatedPodIfExists(pod)
}

// nominated keeps the promise of room that a waiting pod's status holds.
func (in *Intake) nominated(pod *v1.Pod) {
	if pod.Status.NominatedNodeName == "" || !in.options.Queue.Serves(pod.Spec.SchedulerName) {
		return
	}
	if info, _ := framework.NewPodInfo(pod); info != nil {
		in.options.Cache.AddNominatedPod(in.options.Log, info, nil)
	}
}

// confirmed takes a pod that the API server holds as assigned.
func (in *Intake) confirmed(ctx context.Context, pod *v1.Pod) {
	in.options.Cache.Confirm(pod)
	in.options.Cache.DeleteNominatedPodIfExists(pod)
	in.options.Queue.Delete(pod.UID)
	in.options.Forget(pod.UID)
	in.options.Queue.Event(ctx, assignedPodAdd, nil, pod, nil)
}

func (in *Intake) podUpdated(oldPod, newPod *v1.Pod) {
	ctx := in.context()
	switch {
	case oldPod.UID != newPod.UID:
		// The deletion in between was not seen.
		in.podDeleted(oldPod)
		in.podAdded(newPod)
	case assigned(oldPod):
		in.options.Cache.Confirm(newPod)
		for _, change := range podChanges(oldPod, newPod, fwk.AssignedPod) {
			in.options.Queue.Event(ctx, change, oldPod, newPod, nil)
		}
	case assigned(newPod):
		in.confirmed(ctx, newPod)
	case oldPod.ResourceVersion != newPod.ResourceVersion:
		in.waitingUpdated(ctx, oldPod, newPod)
	}
}

func (in *Intake) waitingUpdated(ctx context.Context, oldPod, newPod *v1.Pod) {
	changes := podChanges(oldPod, newPod, fwk.TargetPod)
	if _, assumed := in.options.Cache.Assumed(newPod.UID); assumed {
		// Should the pod come back, it comes back as it is now.
		in.options.Queue.Renew(ctx, oldPod, newPod, changes...)
		// On its way to a node it is told to stop only when it is deleted.
		if newPod.DeletionTimestamp != nil && oldPod.DeletionTimestamp == nil {
			in.rejectWaiting(newPod)
		}
		return
	}
	in.options.Queue.Update(ctx, oldPod, newPod, changes...)
	if info, _ := framework.NewPodInfo(newPod); info != nil && in.options.Queue.Serves(newPod.Spec.SchedulerName) {
		in.options.Cache.UpdateNominatedPod(in.options.Log, oldPod, info)
	}
	if had := oldPod.Status.NominatedNodeName; had != "" && had != newPod.Status.NominatedNodeName {
		in.RoomReturned(ctx, oldPod)
	}
}

func (in *Intake) podDeleted(pod *v1.Pod) {
	ctx := in.context()
	in.rejectWaiting(pod)
	in.options.Queue.Delete(pod.UID)
	in.options.Cache.DeleteNominatedPodIfExists(pod)
	in.options.Forget(pod.UID)
	// A pod that was only assumed leaves room as well.
	if in.options.Cache.Remove(pod.UID) || assigned(pod) {
		in.options.Queue.Event(ctx, assignedPodDelete, pod, nil, nil)
	} else if pod.Status.NominatedNodeName != "" {
		in.RoomReturned(ctx, pod)
	}
}

// RoomReturned wakes pods that may take the room that was promised to pod:
// those of no higher priority, since the others could always have had it.
func (in *Intake) RoomReturned(ctx context.Context, pod *v1.Pod) {
	priority := corev1.PodPriority(pod)
	in.options.Queue.Event(ctx, assignedPodDelete, pod, nil, func(other *v1.Pod) bool {
		return corev1.PodPriority(other) <= priority
	})
}

// rejectWaiting ends a pod's wait at Permit, if it waits there.
func (in *Intake) rejectWaiting(pod *v1.Pod) {
	if waiting := in.options.Waiting.Get(pod.UID); waiting != nil {
		waiting.Reject("", "the pod was deleted")
	}
}
