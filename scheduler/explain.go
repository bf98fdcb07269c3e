package scheduler

import (
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/scheduler/binding"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/queue"
)

// Why a pod waits is put on the Desk before the pod is put down: whatever comes
// of it next is then said after. Nothing here writes, or waits.

// explains says whether pods are explained that wait by blueprint.
func (s *Scheduler) explains(blueprint *compile.Blueprint) bool {
	return s.options.Explanations != nil && blueprint.Decisions.Explains()
}

// explanation begins the explanation of a pod. blueprint is nil where no profile
// runs.
func (s *Scheduler) newExplanation(pod *v1.Pod, blueprint *compile.Blueprint) decision.Explanation {
	e := decision.Explanation{Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID}
	e.Status.Profile.Name, e.Status.LastChange = pod.Spec.SchedulerName, s.now()
	if blueprint != nil {
		e.Status.Profile = decision.DecidedBy{Name: blueprint.Name, Generation: blueprint.Generation, Hash: blueprint.Hash}
		e.Nodes = blueprint.Decisions.Nodes
	}
	return e
}

func (s *Scheduler) now() metav1.Time { return metav1.NewTime(s.options.Clock.Now()) }

// rests is where a pod waits from now on.
func (s *Scheduler) queuePlace(where queue.Place) *decision.Queue {
	return &decision.Queue{Where: string(where), Since: s.now()}
}

// explainRefused explains an attempt that ended with err. It comes before the
// attempt ends.
func (s *Scheduler) explainFailure(t *schedulingCycle, err error) {
	switch {
	case s.options.Explanations == nil:
		return
	case !s.explains(t.generation.Blueprint()):
		// What was said of it under other settings is not true any more.
		s.options.Explanations.Withdraw(t.Pod.Namespace, t.Pod.Name, t.Pod.UID)
		return
	}
	if t.explanation == nil {
		t.explanation = s.failureExplanation(t, err)
		s.addMessage(t, err)
	}
	s.putExplanation(*t.explanation)
}

// put puts the explanation of a pod that waits.
func (s *Scheduler) putExplanation(e decision.Explanation) {
	s.options.Explanations.Put(e)
	if !s.queue.Has(e.UID) && !fault.GoneExplained {
		// It is gone, and the Desk may have heard of that before us.
		s.options.Explanations.PodDeleted(e.Namespace, e.Pod, e.UID)
	}
}

// whyRefused is the explanation of an attempt that ended with err, as far as it
// tells one from another.
func (s *Scheduler) failureExplanation(t *schedulingCycle, err error) *decision.Explanation {
	e := s.newExplanation(t.Pod, t.generation.Blueprint())
	e.Status.Result = decision.ResultError
	if resultOf(err) == decision.Unschedulable {
		e.Status.Result = decision.ResultUnschedulable
	}
	// It may be woken at once by what happened meanwhile; then it is tried, and
	// there is something else to say.
	e.Status.Queue, e.Status.Nodes = s.queuePlace(queue.Backoff), t.nodeCounts(err)
	var unfit *framework.FitError
	var declined *binding.BindRejectedError
	switch {
	case errors.As(err, &unfit):
		e.Status.Rejections, e.Status.BlockedBy = cycle.Rejections(unfit, s.redactor(t))
		if len(unfit.Diagnosis.UnschedulablePlugins)+len(unfit.Diagnosis.PendingPlugins) > 0 {
			e.Status.Queue.Where = string(queue.Unschedulable)
		}
		if e.Status.Preemption = s.preemptionResult(t); t.isPreempting(e.Status.Preemption) {
			e.Status.Result = decision.ResultPreempting
		}
	case errors.As(err, &declined):
		e.Status.BlockedBy = declined.Plugin
	}
	if len(e.Status.Rejections) == 0 {
		// There is nothing but the text to tell it from another one.
		e.Status.Message = s.redactedMessage(t, err)
	}
	return &e
}

// counted counts the nodes of an attempt that ended with err; nil when none was
// looked at.
func (t *schedulingCycle) nodeCounts(err error) *decision.Nodes {
	var unfit *framework.FitError
	switch {
	case t.placement != nil:
		return decisionNodes(t.nodeCount, t.placement.Evaluated, t.placement.Feasible)
	case errors.As(err, &unfit):
		return decisionNodes(unfit.NumAllNodes, unfit.Diagnosis.NodeToStatus.Len(), 0)
	case errors.Is(err, cycle.ErrNoNodes):
		return decisionNodes(0, 0, 0)
	}
	return nil
}

func decisionNodes(total, evaluated, feasible int) *decision.Nodes {
	return &decision.Nodes{
		Total: int32(total), Evaluated: int32(evaluated), Feasible: int32(feasible), Summary: fmt.Sprintf("%d/%d", feasible, total),
	}
}

// explainWait explains a pod that waits at Permit.
func (s *Scheduler) explainPermitWait(t *schedulingCycle) {
	if !s.explains(t.generation.Blueprint()) {
		return
	}
	waiting := s.waitingPods.Get(t.Pod.UID)
	if waiting == nil {
		return
	}
	e := s.newExplanation(t.Pod, t.generation.Blueprint())
	e.Status.Result, e.Status.Nodes, e.Status.Queue = decision.ResultWaitingOnPermit, t.nodeCounts(nil), s.queuePlace(queue.InFlight)
	e.Status.BlockedBy = strings.Join(waiting.GetPendingPlugins(), ", ")
	e.Status.Message = "a node is chosen; the pod waits for " + e.Status.BlockedBy
	s.putExplanation(e)
}

// explainBound has the Desk know that a pod is bound, and explains where it went
// if the profile explains all.
func (s *Scheduler) explainBound(t *schedulingCycle, d decision.Decision) {
	if s.options.Explanations == nil {
		return
	}
	if blueprint := t.generation.Blueprint(); blueprint.Decisions.Explain == decision.ExplainAll {
		e := s.newExplanation(t.Pod, blueprint)
		e.Status.Result, e.Status.Nodes = decision.ResultBound, t.nodeCounts(nil)
		s.options.Explanations.Put(e)
		if s.podGone(t) {
			s.options.Explanations.PodDeleted(d.Namespace, d.Pod, d.UID)
			return
		}
	}
	s.options.Explanations.PodBound(d.Namespace, d.Pod, d.UID)
}

// explainHeld explains a pod that is kept out of scheduling by its profile, or
// because plugins go wrong at it. That a gate holds it instead the gate tells.
func (s *Scheduler) explainHeld(pod *v1.Pod, hold queue.Hold) {
	if hold.Reason == v1.PodReasonSchedulingGated {
		return
	}
	e, explained := s.explanationWithoutAttempt(pod)
	if !explained {
		return
	}
	e.Status.Result, e.Status.Queue = decision.ResultHeld, s.queuePlace(queue.Held)
	if hold.Reason == queue.Quarantined {
		e.Status.Result = decision.ResultQuarantined
	}
	e.Status.BlockedBy, e.Status.Message = hold.Reason, hold.Message
	s.putExplanation(e)
}

// explainGate explains a pod that a PreEnqueue plugin keeps from being tried.
func (s *Scheduler) explainGate(pod *v1.Pod, gate string) {
	e, explained := s.explanationWithoutAttempt(pod)
	if !explained {
		return
	}
	e.Status.Result, e.Status.Queue = decision.ResultGated, s.queuePlace(queue.Gated)
	e.Status.Queue.Gate, e.Status.BlockedBy = gate, gate
	e.Status.Message = queue.GateMessage(gate)
	if s.binding.Evicting(pod.UID) {
		e.Status.Result, e.Status.Preemption = decision.ResultPreempting, &decision.PreemptionResult{Outcome: decision.PreemptionUnderWay}
	}
	if generation, ok := s.profiles.Acquire(pod.Spec.SchedulerName); ok {
		e.Status.RequeueEvents = requeueEvents(generation, gate)
		generation.Release()
	}
	s.putExplanation(e)
}

// explainAgain explains the pods of a profile that are held or gated, or takes
// back what was explained: since the profile has more told of them, or less. Each
// is as the queue has it by now.
func (s *Scheduler) reexplain(profile string) {
	if !s.isLeader() {
		return
	}
	for _, pod := range sortedByUID(s.queue.HeldPods()) {
		if pod.Spec.SchedulerName != profile {
			continue
		}
		if hold, held := s.queue.HoldOf(pod.UID); held {
			s.explainHeld(pod, hold)
		}
	}
	for _, pod := range sortedByUID(s.queue.GatedPods()) {
		if pod.Spec.SchedulerName != profile {
			continue
		}
		if gate, gated := s.queue.GatingPlugin(pod.UID); gated {
			s.explainGate(pod, gate)
		}
	}
}

// explanationAtRest begins the explanation of a pod that is not tried, unless
// its profile explains none.
func (s *Scheduler) explanationWithoutAttempt(pod *v1.Pod) (e decision.Explanation, explained bool) {
	if s.options.Explanations == nil {
		return e, false
	}
	running, _ := s.profiles.Running(pod.Spec.SchedulerName)
	if running.Blueprint != nil && !s.explains(running.Blueprint) {
		s.options.Explanations.Withdraw(pod.Namespace, pod.Name, pod.UID)
		return e, false
	}
	return s.newExplanation(pod, running.Blueprint), true
}
