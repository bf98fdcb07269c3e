package binding

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// Evicted is how an eviction ended.
type Evicted struct {
	// Victims is how many were told to go; those that were leaving already, or
	// on another preemptor's word, are not among them.
	Victims int
	// Announced says that the last victim's leaving is still to be heard as
	// the deletion of an assigned pod, which wakes the preemptor.
	Announced bool
	// Err says why not all victims were told.
	Err error
}

// +kubebuilder:rbac:groups="",resources=pods,verbs=delete,roleName=preemptor-role

// Evict carries a plan out, beside the caller, and calls done once when that
// has ended and Evicting has forgotten it. Victims are told one after the
// other; the first failure ends it, since the preemptor must not get its room
// at the price of victims that do not make any.
func (b *Binding) Evict(ctx context.Context, handle fwk.Handle, plan *framework.Eviction, done func(Evicted)) {
	var victims []*v1.Pod
	for _, victim := range plan.Victims {
		if victim.DeletionTimestamp == nil {
			victims = append(victims, victim)
		}
	}
	if len(victims) == 0 {
		done(Evicted{Announced: true})
		return
	}
	uid := plan.Preemptor.UID
	under := b.evictions.begin(uid)
	b.options.Go(func() {
		b.clearNominations(ctx, handle, plan)
		var result Evicted
		for i, victim := range victims {
			if i == len(victims)-1 {
				b.evictions.turnTo(under, victim)
			}
			if b.evict(ctx, handle, plan, victim, &result); result.Err != nil {
				break
			}
		}
		b.evictions.end(uid, under)
		done(result)
	})
}

// clearNominations ends the nominations of lesser pods for the plan's node:
// they may not fit there any more, and had better look elsewhere at once.
func (b *Binding) clearNominations(ctx context.Context, handle fwk.Handle, plan *framework.Eviction) {
	none := ""
	for _, info := range handle.NominatedPodsForNode(plan.Node) {
		pod := info.GetPod()
		if corev1.PodPriority(pod) >= corev1.PodPriority(plan.Preemptor) {
			continue
		}
		handle.AddNominatedPod(klog.FromContext(ctx), info, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride})
		b.status.put(&news{pod: pod, nominated: &none})
	}
}

// evict tells one victim to go, unless somebody has, and notes in result how
// that went.
func (b *Binding) evict(ctx context.Context, handle fwk.Handle, plan *framework.Eviction, victim *v1.Pod, result *Evicted) {
	if !b.evictions.claim(victim) {
		result.Announced = b.options.Cache.Pod(victim.UID) != nil
		return
	}
	// By UID: the victim's owner may not know of the preemptor's namespace.
	note := fmt.Sprintf("Preempted by pod %v on node %v", plan.Preemptor.UID, plan.Node)
	there, inMemory := true, stopInMemory(handle, plan.Plugin, victim)
	if inMemory {
		note += " (in the scheduler's memory)."
	} else {
		there, result.Err = b.remove(ctx, plan, victim)
	}
	b.evictions.claimed(victim, result.Err == nil, inMemory)
	if !there {
		// The event of its leaving comes when the cache hears of it, or came.
		result.Announced = b.options.Cache.Pod(victim.UID) != nil
		return
	}
	result.Announced = true
	result.Victims++
	klog.FromContext(ctx).V(1).Info("Preempted", "victim", klog.KObj(victim), "preemptor", klog.KObj(plan.Preemptor), "node", plan.Node)
	handle.EventRecorder().WithLogger(klog.FromContext(ctx)).Eventf(victim, nil, v1.EventTypeNormal, "Preempted", "Preempting", "%s", note)
}

// stopInMemory cuts the way of a victim short that is not on its node yet, but
// waits for Permit or in PreBind. It goes back to the queue; for all others
// that is as good as a deletion.
func stopInMemory(handle fwk.Handle, plugin string, victim *v1.Pod) bool {
	if waiting := handle.GetWaitingPod(victim.UID); waiting != nil {
		return waiting.Preempt(plugin, "preempted")
	}
	if preBind := handle.GetPodInPreBind(victim.UID); preBind != nil {
		return preBind.CancelPod("preempted by " + plugin)
	}
	return false
}

// remove deletes a victim, and says before in its status why. It reports
// whether the pod was there.
func (b *Binding) remove(ctx context.Context, plan *framework.Eviction, victim *v1.Pod) (there bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	pods := b.options.Client.CoreV1().Pods(victim.Namespace)
	why := &news{pod: victim, condition: &v1.PodCondition{
		Type:               v1.DisruptionTarget,
		Status:             v1.ConditionTrue,
		Reason:             v1.PodReasonPreemptionByScheduler,
		Message:            plan.Preemptor.Spec.SchedulerName + ": preempting to accommodate a higher priority pod",
		ObservedGeneration: victim.Generation,
	}}
	// Without a version: the victim goes, whatever else is new about it.
	patch, err := why.patch(view{condition: conditionOf(victim, v1.DisruptionTarget)}, metav1.NewTime(b.options.Clock.Now()))
	if err == nil && patch != nil {
		_, err = pods.Patch(ctx, victim.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if apierrors.IsNotFound(err) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("telling victim %s/%s why: %w", victim.Namespace, victim.Name, err)
	}
	// With its UID, so that a pod re-created under the same name is left alone.
	err = pods.Delete(ctx, victim.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(victim.UID))})
	if apierrors.IsNotFound(err) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("deleting victim %s/%s: %w", victim.Namespace, victim.Name, err)
	}
	return true, nil
}
