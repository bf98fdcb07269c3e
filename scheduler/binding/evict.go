package binding

import (
	"context"
	"errors"
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

// maxEvictTries is how often one victim is tried to evict while the API server fails.
const maxEvictTries = 4

// EvictionResult is the result of carrying out a PreemptionPlan.
type EvictionResult struct {
	// Victims is the number of pods that this plan evicted. Pods that were
	// terminating already, or that another plan evicted, do not count.
	Victims int
	// DeleteEventExpected says that the event of the last victim's deletion, which
	// requeues the preemptor, is still to come.
	DeleteEventExpected bool
	// Err is why not all victims were evicted.
	Err error
}

// +kubebuilder:rbac:groups="",resources=pods,verbs=delete,roleName=preemptor-role

// Evict carries out a plan in the background. It calls done once, when the eviction
// has ended and Evicting does not report it any more. Victims are evicted one after
// the other. The first failure ends the eviction: victims must not be evicted when
// the preemptor does not get enough resources by it.
func (b *Binding) Evict(ctx context.Context, handle fwk.Handle, plan *framework.PreemptionPlan, done func(EvictionResult)) {
	var victims []*v1.Pod
	for _, victim := range plan.Victims {
		if victim.DeletionTimestamp == nil {
			victims = append(victims, victim)
		}
	}
	if len(victims) == 0 {
		done(EvictionResult{DeleteEventExpected: true})
		return
	}
	task := &evictionTask{plan: plan, handle: handle, victims: victims, eviction: b.evictions.begin(plan), done: done}
	b.options.Go(func() {
		b.clearNominations(ctx, handle, plan)
		b.runEviction(ctx, task)
	})
}

// evictionTask is a plan that is being carried out.
type evictionTask struct {
	plan   *framework.PreemptionPlan
	handle fwk.Handle
	// victims are those that are still to be evicted.
	victims  []*v1.Pod
	eviction *eviction
	result   EvictionResult
	done     func(EvictionResult)
}

// runEviction evicts the remaining victims. A victim that another plan is evicting
// right now is waited for, and the preemptor is not tried as long: it would find the
// cluster unchanged and choose other victims.
func (b *Binding) runEviction(ctx context.Context, task *evictionTask) {
	for ; len(task.victims) > 0 && task.result.Err == nil; task.victims = task.victims[1:] {
		if len(task.victims) == 1 {
			b.evictions.setLast(task.eviction, task.victims[0])
		}
		if !b.evictNext(ctx, task) {
			return
		}
	}
	b.evictions.end(task.plan.Preemptors(), task.eviction)
	task.done(task.result)
}

// clearNominations removes the nominations of pods with a lower priority for the
// plan's node, and wakes pods that they kept away. They may not fit there any more and
// should be tried elsewhere. As in kube-scheduler, the plan of a group, whose victims are
// on several nodes, removes none.
func (b *Binding) clearNominations(ctx context.Context, handle fwk.Handle, plan *framework.PreemptionPlan) {
	none := ""
	for _, info := range handle.NominatedPodsForNode(plan.Node) {
		pod := info.GetPod()
		if corev1.PodPriority(pod) >= corev1.PodPriority(plan.Preemptor) {
			continue
		}
		handle.AddNominatedPod(klog.FromContext(ctx), info, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride})
		b.status.add(&statusUpdate{pod: pod, nominated: &none})
		// No update of the pod may say so: its status may never have shown the nomination, or be
		// refused.
		b.options.NominationFreed(ctx, pod, plan.Node)
	}
}

// evictNext evicts the next victim, unless another plan has, and stores the outcome
// in the result. It returns false when another plan is evicting the victim right now;
// the task then continues when that has ended.
func (b *Binding) evictNext(ctx context.Context, task *evictionTask) bool {
	victim, handle, plan, result := task.victims[0], task.handle, task.plan, &task.result
	switch b.claim(victim, func() { b.options.Go(func() { b.runEviction(ctx, task) }) }) {
	case claimWaits:
		return false
	case claimNotNeeded:
		result.DeleteEventExpected = b.isOnNode(victim)
		return true
	}
	// The UID, because the victim's owner may not be allowed to know the
	// preemptor's namespace.
	note := fmt.Sprintf("Preempted by %s %v on node %v", plan.Kind(), plan.UID(), plan.Node)
	inMemory, gone := stopInMemory(handle, plan.Plugin, victim), false
	if inMemory {
		note += " (in the scheduler's memory)."
	} else {
		gone, result.Err = b.deleteVictim(ctx, plan, victim)
	}
	b.evictions.resolveClaim(victim, result.Err == nil, inMemory)
	// When the victim went by itself, its deletion event comes with the cache's
	// update of it, or has come.
	result.DeleteEventExpected = result.Err == nil && (!gone || b.isOnNode(victim))
	if gone || result.Err != nil {
		return true
	}
	result.Victims++
	klog.FromContext(ctx).V(1).Info("Preempted", "victim", klog.KObj(victim), "preemptor", klog.KObj(plan.Preemptor), "node", plan.Node)
	handle.EventRecorder().WithLogger(klog.FromContext(ctx)).Eventf(victim, nil, v1.EventTypeNormal, "Preempted", "Preempting", "%s", note)
	return true
}

// stopInMemory rejects a victim that waits on Permit, or cancels one in PreBind. The
// victim goes back to the queue, which frees its resources as a deletion does. It
// returns false for a pod that is at neither point.
func stopInMemory(handle fwk.Handle, plugin string, victim *v1.Pod) bool {
	if waiting := handle.GetWaitingPod(victim.UID); waiting != nil {
		return waiting.Preempt(plugin, "preempted")
	}
	if preBind := handle.GetPodInPreBind(victim.UID); preBind != nil {
		return preBind.CancelPod("preempted by " + plugin)
	}
	return false
}

// deleteVictim sets the DisruptionTarget condition of a victim and deletes it. It
// tries maxEvictTries times while the API server fails. gone says that the pod was
// gone already.
func (b *Binding) deleteVictim(ctx context.Context, plan *framework.PreemptionPlan, victim *v1.Pod) (gone bool, err error) {
	for try := 1; ; try++ {
		err = b.deleteVictimOnce(ctx, plan, victim)
		if errors.Is(err, ErrGone) {
			return true, nil
		}
		if err == nil || try == maxEvictTries || !ambiguous(err) || !b.pause(ctx, retryDelay) {
			return false, err
		}
	}
}

// deleteVictimOnce is one try of deleteVictim. The error is ErrGone for a pod that is
// gone already.
func (b *Binding) deleteVictimOnce(ctx context.Context, plan *framework.PreemptionPlan, victim *v1.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	pods, action := b.options.Client.CoreV1().Pods(victim.Namespace), "patching the status of the victim"
	patch, err := b.disruptionPatch(plan, victim)
	if err == nil && patch != nil {
		_, err = pods.Patch(ctx, victim.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err == nil {
		action = "deleting the victim"
		// The UID protects a pod that was created again under the same name.
		err = pods.Delete(ctx, victim.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(victim.UID))})
	}
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		return ErrGone
	case apierrors.IsConflict(err):
		// A conflict of the UID means that the victim is gone, one of another
		// write does not.
		if live, readErr := b.getLivePod(ctx, victim); readErr == nil && live == nil {
			return ErrGone
		}
	}
	return fmt.Errorf("%s %s/%s: %w", action, victim.Namespace, victim.Name, err)
}

// disruptionPatch returns the patch that sets the DisruptionTarget condition of a
// victim, nil when the condition is set already. The patch has no resource version,
// since the status of a running pod may change at any time.
func (b *Binding) disruptionPatch(plan *framework.PreemptionPlan, victim *v1.Pod) ([]byte, error) {
	update := &statusUpdate{pod: victim, condition: &v1.PodCondition{
		Type:               v1.DisruptionTarget,
		Status:             v1.ConditionTrue,
		Reason:             v1.PodReasonPreemptionByScheduler,
		Message:            plan.Preemptor.Spec.SchedulerName + ": preempting to accommodate a higher priority " + plan.Kind(),
		ObservedGeneration: victim.Generation,
	}}
	return update.patch(podStatus{condition: conditionOf(victim, v1.DisruptionTarget)}, metav1.NewTime(b.options.Clock.Now()))
}
