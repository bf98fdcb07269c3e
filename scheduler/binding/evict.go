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

	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// evictTries is how often an API server that fails is asked to evict a victim.
const maxEvictTries = 4

// Evicted is how an eviction ended.
type EvictionResult struct {
	// Victims is how many were told to go; those that were leaving already, or
	// on another preemptor's word, are not among them.
	Victims int
	// Announced says that the last victim's leaving is still to be heard as
	// the deletion of an assigned pod, which wakes the preemptor.
	DeleteEventExpected bool
	// Err says why not all victims were told.
	Err error
}

// +kubebuilder:rbac:groups="",resources=pods,verbs=delete,roleName=preemptor-role

// Evict carries a plan out, beside the caller, and calls done once when that
// has ended and Evicting has forgotten it. Victims are told one after the
// other; the first failure ends it, since the preemptor must not get its room
// at the price of victims that do not make any.
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
	work := &evictionTask{plan: plan, handle: handle, victims: victims, eviction: b.evictions.begin(plan.Preemptor.UID), done: done}
	b.options.Go(func() {
		b.clearNominations(ctx, handle, plan)
		b.runEviction(ctx, work)
	})
}

// evicting is a plan that is being carried out.
type evictionTask struct {
	plan   *framework.PreemptionPlan
	handle fwk.Handle
	// victims are those that are still to be told.
	victims  []*v1.Pod
	eviction *eviction
	result   EvictionResult
	done     func(EvictionResult)
}

// carryOn tells the victims that are left. One that another plan is telling
// right now is waited for: its preemptor is at work as long, and would
// otherwise be tried meanwhile, find all as it was, and change its mind.
func (b *Binding) runEviction(ctx context.Context, work *evictionTask) {
	for ; len(work.victims) > 0 && work.result.Err == nil; work.victims = work.victims[1:] {
		if len(work.victims) == 1 {
			b.evictions.setLast(work.eviction, work.victims[0])
		}
		if !b.evictNext(ctx, work) {
			return
		}
	}
	b.evictions.end(work.plan.Preemptor.UID, work.eviction)
	work.done(work.result)
}

// clearNominations ends the nominations of lesser pods for the plan's node:
// they may not fit there any more, and had better look elsewhere at once.
func (b *Binding) clearNominations(ctx context.Context, handle fwk.Handle, plan *framework.PreemptionPlan) {
	none := ""
	for _, info := range handle.NominatedPodsForNode(plan.Node) {
		pod := info.GetPod()
		if corev1.PodPriority(pod) >= corev1.PodPriority(plan.Preemptor) || fault.LesserPromiseKept {
			continue
		}
		handle.AddNominatedPod(klog.FromContext(ctx), info, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride})
		b.status.add(&statusUpdate{pod: pod, nominated: &none})
	}
}

// evict tells the next victim to go, unless somebody has, and notes in the
// result how that went. It reports false when somebody is about to: then the
// work goes on when that has ended, one way or the other.
func (b *Binding) evictNext(ctx context.Context, work *evictionTask) bool {
	victim, handle, plan, result := work.victims[0], work.handle, work.plan, &work.result
	switch b.claim(victim, func() { b.options.Go(func() { b.runEviction(ctx, work) }) }) {
	case claimWaits:
		return false
	case claimNotNeeded:
		result.DeleteEventExpected = b.isOnNode(victim)
		return true
	}
	// By UID: the victim's owner may not know of the preemptor's namespace.
	note := fmt.Sprintf("Preempted by pod %v on node %v", plan.Preemptor.UID, plan.Node)
	inMemory, gone := stopInMemory(handle, plan.Plugin, victim), false
	if inMemory {
		note += " (in the scheduler's memory)."
	} else {
		gone, result.Err = b.deleteVictim(ctx, plan, victim)
	}
	b.evictions.resolveClaim(victim, result.Err == nil, inMemory)
	// Of one that went by itself the event comes when the cache hears of it, or
	// it has come.
	result.DeleteEventExpected = result.Err == nil && (!gone || b.isOnNode(victim))
	if gone || result.Err != nil {
		return true
	}
	result.Victims++
	klog.FromContext(ctx).V(1).Info("Preempted", "victim", klog.KObj(victim), "preemptor", klog.KObj(plan.Preemptor), "node", plan.Node)
	handle.EventRecorder().WithLogger(klog.FromContext(ctx)).Eventf(victim, nil, v1.EventTypeNormal, "Preempted", "Preempting", "%s", note)
	return true
}

// stopInMemory cuts the way of a victim short that is not on its node yet, but
// waits for Permit or in PreBind. It goes back to the queue; for all others
// that is as good as a deletion.
func stopInMemory(handle fwk.Handle, plugin string, victim *v1.Pod) bool {
	if fault.VictimOnItsWayDeleted {
		return false
	}
	if waiting := handle.GetWaitingPod(victim.UID); waiting != nil {
		return waiting.Preempt(plugin, "preempted")
	}
	if preBind := handle.GetPodInPreBind(victim.UID); preBind != nil {
		return preBind.CancelPod("preempted by " + plugin)
	}
	return false
}

// remove deletes a victim, and says before in its status why. An API server
// that fails is asked again, a few times. gone says that the pod went without.
func (b *Binding) deleteVictim(ctx context.Context, plan *framework.PreemptionPlan, victim *v1.Pod) (gone bool, err error) {
	for try := 1; ; try++ {
		err = b.deleteVictimOnce(ctx, plan, victim)
		if errors.Is(err, ErrGone) {
			return true, nil
		}
		if err == nil || try == maxEvictTries || !ambiguous(err) || !b.pause(ctx) {
			return false, err
		}
	}
}

// removeNow is one try of remove; the error is ErrGone for a pod that is gone.
func (b *Binding) deleteVictimOnce(ctx context.Context, plan *framework.PreemptionPlan, victim *v1.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	pods, doing := b.options.Client.CoreV1().Pods(victim.Namespace), "telling a victim why"
	patch, err := b.disruptionPatch(plan, victim)
	if err == nil && patch != nil && !fault.VictimNotToldWhy {
		_, err = pods.Patch(ctx, victim.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err == nil {
		doing = "deleting a victim"
		// With its UID, so that a pod re-created under the same name is left
		// alone.
		which := metav1.NewUIDPreconditions(string(victim.UID))
		if fault.VictimByName {
			which = nil
		}
		err = pods.Delete(ctx, victim.Name, metav1.DeleteOptions{Preconditions: which})
	}
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		return ErrGone
	case apierrors.IsConflict(err):
		// Of its UID or of another write: only the first is an answer.
		if live, readErr := b.getLivePod(ctx, victim); readErr == nil && live == nil {
			return ErrGone
		}
	}
	return fmt.Errorf("%s, %s/%s: %w", doing, victim.Namespace, victim.Name, err)
}

// why returns the patch that says why the victim has to go, nil when it says
// so already. It names no version: others may change a running pod all the
// time.
func (b *Binding) disruptionPatch(plan *framework.PreemptionPlan, victim *v1.Pod) ([]byte, error) {
	told := &statusUpdate{pod: victim, condition: &v1.PodCondition{
		Type:               v1.DisruptionTarget,
		Status:             v1.ConditionTrue,
		Reason:             v1.PodReasonPreemptionByScheduler,
		Message:            plan.Preemptor.Spec.SchedulerName + ": preempting to accommodate a higher priority pod",
		ObservedGeneration: victim.Generation,
	}}
	return told.patch(podStatus{condition: conditionOf(victim, v1.DisruptionTarget)}, metav1.NewTime(b.options.Clock.Now()))
}
