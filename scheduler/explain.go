package scheduler

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/explain"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/queue"
)

// explains reports whether the profile explains its pending pods.
func (s *Scheduler) explains(blueprint *compile.Blueprint) bool {
	return s.options.Explanations != nil && blueprint.Decisions.Explains()
}

// explainedAttempt returns what the explanation of an attempt that ended with err is
// built from.
func (s *Scheduler) explainedAttempt(t *schedulingCycle, err error) explain.Attempt {
	a := explain.Attempt{
		Pod: t.Pod, Blueprint: t.generation.Blueprint(), Placement: t.placement, NodeCount: t.nodeCount,
		Result: v1alpha1.ResultBound, NominatingInfo: t.nominatingInfo, Group: t.group, Preemption: t.groupPreemption,
		InTree: t.generation.Framework.InTree, RequeueEvents: t.generation.RequeueEvents,
	}
	if err != nil {
		a.Result = resultOf(err)
	}
	var fitErr *framework.FitError
	if a.Preemption == nil && errors.As(err, &fitErr) {
		a.Preemption = s.preemptionResult(t)
	}
	return a
}

// putExplanation adds the explanation of a pending pod to the explanation queue, unless the
// pod was deleted: another pod of its name may be explained by now. It does not wait and does
// no I/O.
func (s *Scheduler) putExplanation(pod *v1.Pod, e decision.Explanation) {
	if s.pendingPods.Exists(pod) { // the events of its creation and its deletion may come late
		s.queue.IfHas(e.UID, func() { s.options.Explanations.Put(e) })
	}
}

// explainInCycle builds the explanation of a failed cycle while the snapshot does not
// change. It computes the closest nodes and the message, which is expensive, only where
// the explanation will be written, and no closest nodes for a pod whose victims are being
// evicted.
func (s *Scheduler) explainInCycle(ctx context.Context, t *schedulingCycle, request cycle.Request, err error) {
	var fitErr *framework.FitError
	if !s.explains(t.generation.Blueprint()) || !errors.As(err, &fitErr) {
		return
	}
	a := s.explainedAttempt(t, err)
	t.explanation = s.explainer.Failure(a, err)
	if s.options.Explanations.WouldWrite(*t.explanation) {
		if t.explanation.Status.Result != v1alpha1.ResultPreempting {
			t.explanation.Status.ClosestNodes = cycle.ClosestNodes(ctx, request, fitErr, s.explainer.Redactor(a))
			t.explanation.Status.DeviceRequests = cycle.DeviceRequests(ctx, request, fitErr)
		}
		if framework.CheckAbandoned(t.state) != nil {
			return
		}
		s.explainer.AddMessage(t.explanation, a, err)
	}
}

// explainFailure explains an attempt that ended with err. It is called before the pod
// goes back to the queue, so that later explanations of the pod come after this one.
func (s *Scheduler) explainFailure(t *schedulingCycle, err error) {
	switch {
	case s.options.Explanations == nil:
		return
	case !s.explains(t.generation.Blueprint()):
		// An explanation from before the profile's setting changed is not valid any more.
		s.options.Explanations.Withdraw(t.Pod.Namespace, t.Pod.Name, t.Pod.UID)
		return
	}
	if t.explanation == nil {
		a := s.explainedAttempt(t, err)
		t.explanation = s.explainer.Failure(a, err)
		s.explainer.AddMessage(t.explanation, a, err)
	}
	t.explanation.Status.Group = t.group
	s.putExplanation(t.Pod, *t.explanation)
}

// explainPermitWait explains a pod that waits on Permit.
func (s *Scheduler) explainPermitWait(t *schedulingCycle) {
	if !s.explains(t.generation.Blueprint()) {
		return
	}
	waiting := s.waitingPods.Get(t.Pod.UID)
	if waiting == nil {
		return
	}
	s.putExplanation(t.Pod, s.explainer.WaitingOnPermit(s.explainedAttempt(t, nil), waiting.GetPendingPlugins()))
}

// explainPassed tells the explanation queue that a pod has passed its scheduling cycle and
// Permit.
func (s *Scheduler) explainPassed(t *schedulingCycle) {
	if s.options.Explanations != nil {
		s.options.Explanations.Passed(t.Pod.Namespace, t.Pod.Name, t.Pod.UID)
	}
}

// explainBound tells the explanation queue that a pod is bound. Where the profile
// explains all pods, it first adds an explanation of the bind.
func (s *Scheduler) explainBound(t *schedulingCycle, d decision.Decision) {
	if s.options.Explanations == nil {
		return
	}
	if t.generation.Blueprint().Decisions.Explain == v1alpha1.ExplainAll && !s.podGone(t) {
		s.options.Explanations.Put(s.explainer.Bound(s.explainedAttempt(t, nil)))
		if s.podGone(t) {
			s.options.Explanations.PodDeleted(d.Namespace, d.Pod, d.UID)
			return
		}
	}
	s.options.Explanations.PodBound(d.Namespace, d.Pod, d.UID)
}

// explainHeld explains a pod that is held by its profile or quarantined after plugin
// faults.
func (s *Scheduler) explainHeld(c queue.HoldChange) {
	if blueprint, ok := s.explainingBlueprint(c.Pod); ok {
		s.putHoldExplanation(c, s.explainer.Held(c.Pod, blueprint, c.Hold))
	}
}

// putHoldExplanation puts the explanation of a pod that is still held or gated. Otherwise an
// attempt may have put its own already.
func (s *Scheduler) putHoldExplanation(c queue.HoldChange, e decision.Explanation) {
	if s.pendingPods.Exists(c.Pod) { // as in putExplanation
		s.queue.IfUnchanged(c, func() { s.options.Explanations.Put(e) })
	}
}

// explainGate explains a pod that a PreEnqueue plugin gates, or that waits with a group one of
// whose pods is gated.
func (s *Scheduler) explainGate(c queue.HoldChange) {
	blueprint, ok := s.explainingBlueprint(c.Pod)
	if !ok {
		return
	}
	gate := explain.Gate{Plugin: c.Gate, Preemption: s.evictionResult(c.Pod.UID)}
	gate.Group, gate.Missing = s.gatedGroup(c)
	if generation, ok := s.profiles.Acquire(c.Pod.Spec.SchedulerName); ok {
		gate.RequeueEvents = explain.RequeueEvents(generation.RequeueEvents, c.Gate)
		if !generation.Framework.IsPlacementFeasiblePlugin(c.Gate) {
			gate.Missing = ""
		}
		generation.Release()
	}
	s.putHoldExplanation(c, s.explainer.Gated(c.Pod, blueprint, gate))
}

// explainingBlueprint returns the profile that explains a pod which is not scheduled now;
// nil where none runs. It returns false, and withdraws an earlier explanation, where the
// profile explains no pod.
func (s *Scheduler) explainingBlueprint(pod *v1.Pod) (blueprint *compile.Blueprint, ok bool) {
	if s.options.Explanations == nil {
		return nil, false
	}
	running, _ := s.profiles.Running(pod.Spec.SchedulerName)
	if running.Blueprint != nil && !s.explains(running.Blueprint) {
		s.options.Explanations.Withdraw(pod.Namespace, pod.Name, pod.UID)
		return nil, false
	}
	return running.Blueprint, true
}
