package scheduler

import (
	"context"
	"errors"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/binding"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// noteLimit is the longest note an Event may have, in bytes.
const maxEventNote = 1024

// assignedPodDelete is the event of room becoming free on a node.
var eventAssignedPodDelete = fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}

// bound settles an attempt whose pod is on its node.
func (s *Scheduler) recordBound(ctx context.Context, t *schedulingCycle) {
	d := s.newDecision(t, nil)
	s.options.Ledger.Record(d)
	t.traceDecision(d, nil)
	t.generation.Framework.EventRecorder().Eventf(t.flight.AssignedPod(), nil, v1.EventTypeNormal, "Scheduled", "Binding",
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
	if s.podGone(t) && !fault.GoneStaysAssumed && s.cache.ForgetPod(t.Pod.UID) {
		// It was bound by somebody else, and gone, before it was assumed: nobody
		// will say again that it is not there.
		s.wakeForFreedResources(ctx, t, nil)
	}
	t.Done()
}

// left says whether the pod is not there any more. The queue alone cannot tell:
// it forgets a pod as well that is seen on its node.
func (s *Scheduler) podGone(t *schedulingCycle) bool {
	if _, here := t.Current(); here {
		return false
	}
	return !s.podExists(t.Pod) || fault.BoundForgotten
}

// refuse settles an attempt that ended without a node: the pod goes back to
// the queue with its rejectors, and its status and an event say why.
func (s *Scheduler) handleSchedulingFailure(ctx context.Context, t *schedulingCycle, err error) {
	if (ctx.Err() != nil || errors.Is(err, errShuttingDown)) && !fault.OldLeaderRefuses {
		// The end of this leadership is no verdict, and the pod's status is
		// the next leader's to write: it may have bound the pod already.
		klog.FromContext(ctx).Info("Not settled: scheduling has ended", "error", err.Error())
		t.traceResult(resultHandedOver)
		t.Failed(ctx)
		return
	}
	d := s.newDecision(t, err)
	s.options.Ledger.Record(d)
	t.traceDecision(d, err)
	reason, result := v1.PodReasonSchedulerError, "error"
	if d.Result == decision.Unschedulable {
		reason, result = v1.PodReasonUnschedulable, "unschedulable"
	}
	s.observeAttempt(result, t)
	logger := klog.FromContext(ctx)
	if d.Result == decision.Error {
		logger.Error(err, "The attempt failed; the pod is tried again", "hash", d.Hash, "attempt", d.Attempts)
	} else {
		logger.V(1).Info("Refused", "hash", d.Hash, "attempt", d.Attempts, "message", d.Message)
	}

	// The pod is told before it is put back: should the queue hold it for
	// another reason than room, that reason has the last word.
	s.reportFailure(ctx, t, reason, d.Message)
	s.explainFailure(t, err)
	var unfit *framework.FitError
	if errors.As(err, &unfit) {
		t.Refused(ctx, unfit.Diagnosis.UnschedulablePlugins, unfit.Diagnosis.PendingPlugins)
	} else {
		t.Failed(ctx)
	}
}

// tellRefused writes a refusal into the pod's status and into an event, and
// keeps or takes back its nomination. A pod that is gone is told nothing.
func (s *Scheduler) reportFailure(ctx context.Context, t *schedulingCycle, reason, message string) {
	pod, here := t.Current()
	if !here {
		return
	}
	promised, nominate := s.cache.NominatedNode(pod.UID), t.nominatingInfo
	if nominate.Mode() != fwk.ModeOverride && promised != "" && promised != pod.Status.NominatedNodeName && !fault.UntoldPromiseForgotten {
		// It keeps what it was promised, and its status does not say so yet.
		nominate = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: promised}
	}
	if info, _ := framework.NewPodInfo(pod); info != nil {
		s.cache.AddNominatedPod(klog.FromContext(ctx), info, nominate)
	}
	silent := fault.PromiseEndsByStatus && promised == pod.Status.NominatedNodeName
	if promised != "" && promised != s.cache.NominatedNode(pod.UID) && !silent && !fault.SilentPromiseEnds {
		// No change of its status need tell of the room that is free again: it may
		// never have told of the promise, or not be written now.
		s.eventHandlers.NominationFreed(ctx, pod, promised)
	}
	if _, here = t.Current(); !here {
		// It went meanwhile, and intake may have cleared up before us.
		s.cache.DeleteNominatedPodIfExists(pod)
		return
	}
	t.generation.Framework.EventRecorder().Eventf(pod, nil, v1.EventTypeWarning, "FailedScheduling", "Scheduling", "%s", truncate(message, maxEventNote))
	var nominated *string
	if nominate.Mode() == fwk.ModeOverride {
		nominated = &nominate.NominatedNodeName
	}
	s.binding.SetNotScheduled(pod, reason, message, nominated)
}

// freed tells the queue that a pod that counted on a node beside the loop does
// not any more: for the others, that is as good as a deletion. A pod that was
// refused does not wake itself. What is taken back within one turn of the loop
// frees nothing: nobody has looked meanwhile.
func (s *Scheduler) wakeForFreedResources(ctx context.Context, t *schedulingCycle, err error) {
	var only func(*v1.Pod) bool
	var unfit *framework.FitError
	if errors.As(err, &unfit) {
		uid := t.Pod.UID
		only = func(pod *v1.Pod) bool { return pod.UID != uid }
	}
	if !fault.FreedRoomUntold {
		s.queue.Event(ctx, eventAssignedPodDelete, t.flight.AssignedPod(), nil, only)
	}
}

// decided makes the record of an attempt that ended with err.
func (s *Scheduler) newDecision(t *schedulingCycle, err error) decision.Decision {
	blueprint := t.generation.Blueprint()
	d := decision.Decision{
		Time: s.options.Clock.Now(), Namespace: t.Pod.Namespace, Pod: t.Pod.Name, UID: t.Pod.UID,
		Result: decision.Bound, Profile: blueprint.Name, Generation: blueprint.Generation, Hash: blueprint.Hash,
		Epoch: s.epoch, Attempts: t.Count, Walk: t.walk,
	}
	if p := t.placement; p != nil {
		d.Node, d.Evaluated, d.Feasible, d.Top = p.Node, p.Evaluated, p.Feasible, t.topNodes
	}
	if err == nil {
		return d
	}
	d.Result, d.Message = resultOf(err), err.Error()
	return d
}

// resultOf is how an attempt ended that ended with err.
func resultOf(err error) decision.Result {
	var unfit *framework.FitError
	var declined *binding.BindRejectedError
	if errors.As(err, &unfit) || errors.As(err, &declined) || errors.Is(err, cycle.ErrNoNodes) {
		return decision.Unschedulable
	}
	return decision.Error
}

// shorten cuts a message off at limit bytes, between two characters.
func truncate(message string, limit int) string {
	const cut = " ..."
	if len(message) <= limit {
		return message
	}
	end := limit - len(cut)
	for !utf8.RuneStart(message[end]) {
		end--
	}
	return message[:end] + cut
}
