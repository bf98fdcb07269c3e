package scheduler

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/binding"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/framework"
)

// maxEventNote is the API server's limit of an Event's note, in bytes.
const maxEventNote = 1024

// recordBound is step 6 for a pod that was bound.
func (s *Scheduler) recordBound(ctx context.Context, t *schedulingCycle) {
	d := s.newDecision(t, nil)
	s.options.Ledger.Record(d)
	t.traceDecision(d, nil)
	t.generation.Framework.EventRecorder().Eventf(t.assignment.AssignedPod(), nil, v1.EventTypeNormal, "Scheduled", "Binding",
		"Successfully assigned %v/%v to %v", d.Namespace, d.Pod, d.Node)
	s.explainBound(t, d)
	s.observeAttempt("scheduled", t)
	s.observeScheduled(t.Count, t.Since)
	if t.Flushed() {
		afterFlush.Inc()
	}
	klog.FromContext(ctx).V(1).Info("Bound", "node", d.Node, "hash", d.Hash, "attempt", d.Attempts,
		"evaluatedNodes", d.Evaluated, "feasibleNodes", d.Feasible)
	s.binding.Forget(t.Pod.UID)
	if s.podGone(t) && s.cache.ForgetPod(t.Pod.UID) {
		// Another scheduler bound the pod, and it was deleted, before it was assumed here:
		// no event will remove it from the cache.
		s.wakeForFreedResources(ctx, t, nil)
	}
	t.Done()
}

// podGone reports whether the pod was deleted. The queue alone cannot tell: it also
// forgets a pod that has a node.
func (s *Scheduler) podGone(t *schedulingCycle) bool {
	if _, exists := t.Current(); exists {
		return false
	}
	return !s.pendingPods.Exists(t.Pod)
}

// handleSchedulingFailure is step 6 for a pod that was not bound: it records why, in the
// decision, the pod's condition and an Event, and gives the pod back to the queue with the
// plugins that rejected it.
func (s *Scheduler) handleSchedulingFailure(ctx context.Context, t *schedulingCycle, err error) {
	if ctx.Err() != nil || errors.Is(err, errShuttingDown) {
		// The leadership ended, which says nothing about the pod. Only the next leader
		// may write its status: it may have bound the pod already.
		klog.FromContext(ctx).Info("The attempt is left to the next leader", "error", err.Error())
		t.traceResult(resultHandedOver)
		t.Failed(ctx)
		return
	}
	d := s.newDecision(t, err)
	s.options.Ledger.Record(d)
	t.traceDecision(d, err)
	reason, result := v1.PodReasonSchedulerError, "error"
	if d.Result == v1alpha1.ResultUnschedulable {
		reason, result = v1.PodReasonUnschedulable, "unschedulable"
	}
	s.observeAttempt(result, t)
	logger := klog.FromContext(ctx)
	if d.Result == v1alpha1.ResultError {
		logger.Error(err, "The attempt failed; the pod is tried again", "hash", d.Hash, "attempt", d.Attempts)
	} else {
		logger.V(1).Info("Unschedulable", "hash", d.Hash, "attempt", d.Attempts, "message", d.Message)
	}

	// The status is written before the pod goes back to the queue: if the queue holds the
	// pod, the condition with the reason of the hold must come last.
	s.reportFailure(ctx, t, reason, d.Message)
	s.explainFailure(t, err)
	var fitErr *framework.FitError
	if errors.As(err, &fitErr) {
		t.Refused(ctx, fitErr.Diagnosis.UnschedulablePlugins, fitErr.Diagnosis.PendingPlugins)
	} else {
		t.Failed(ctx)
	}
	s.pendingPods.AddReleased(ctx, t.Pod)
}

// reportFailure writes a failure into the pod's condition and an Event, and keeps, sets or
// removes its nomination. It does nothing for a pod that was deleted.
func (s *Scheduler) reportFailure(ctx context.Context, t *schedulingCycle, reason, message string) {
	pod, exists := t.Current()
	if !exists {
		// The cycle of its group may have restored a nomination.
		s.cache.DeleteNominatedPodIfExists(pod)
		return
	}
	nominated, nominatingInfo := s.cache.NominatedNode(pod.UID), t.nominatingInfo
	if nominatingInfo.Mode() != fwk.ModeOverride && nominated != "" && nominated != pod.Status.NominatedNodeName {
		// The pod keeps its nomination, which its status does not have yet.
		nominatingInfo = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: nominated}
	}
	if info, _ := framework.NewPodInfo(pod); info != nil {
		s.cache.AddNominatedPod(klog.FromContext(ctx), info, nominatingInfo)
	}
	if nominated != "" && nominated != s.cache.NominatedNode(pod.UID) {
		// No update of the pod need say that the nominated resources are free: its status
		// may never have had the nomination, or may not be written now.
		s.pendingPods.NominationFreed(ctx, pod, nominated)
	}
	if _, exists = t.Current(); !exists {
		// The pod was deleted meanwhile, and its event handler may have run before
		// AddNominatedPod.
		s.cache.DeleteNominatedPodIfExists(pod)
		return
	}
	t.generation.Framework.EventRecorder().Eventf(pod, nil, v1.EventTypeWarning, "FailedScheduling", "Scheduling", "%s", decision.TruncateBytes(message, maxEventNote, " ..."))
	var nodeName *string
	if nominatingInfo.Mode() == fwk.ModeOverride {
		nodeName = &nominatingInfo.NominatedNodeName
	}
	s.binding.SetNotScheduled(pod, reason, message, nodeName)
}

// newDecision returns the record of an attempt that ended with err.
func (s *Scheduler) newDecision(t *schedulingCycle, err error) decision.Decision {
	blueprint := t.generation.Blueprint()
	d := decision.Decision{
		Time: s.options.Clock.Now(), Namespace: t.Pod.Namespace, Pod: t.Pod.Name, UID: t.Pod.UID,
		Result: v1alpha1.ResultBound, Profile: blueprint.Name, Generation: blueprint.Generation, Hash: blueprint.Hash,
		Epoch: s.epoch, Attempts: t.Count, Walk: t.walk,
	}
	if p := t.placement; p != nil {
		d.Node, d.Evaluated, d.Feasible, d.Top = p.Node, p.Evaluated, p.Feasible, t.topNodes
	}
	if err == nil {
		d.Devices = t.generation.Framework.GivenDevices(t.state, t.Pod)
		return d
	}
	d.Result, d.Message = resultOf(err), err.Error()
	return d
}

// resultOf returns the result of an attempt that failed with err.
func resultOf(err error) v1alpha1.DecisionResult {
	var rejected *binding.BindRejectedError
	if cycle.IsUnschedulable(err) || errors.As(err, &rejected) {
		return v1alpha1.ResultUnschedulable
	}
	return v1alpha1.ResultError
}
