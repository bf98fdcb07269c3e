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

// explains reports whether the profile explains its pending pods.
func (s *Scheduler) explains(blueprint *compile.Blueprint) bool {
	return s.options.Explanations != nil && blueprint.Decisions.Explains()
}

// newExplanation returns the explanation of a pod without its reason. blueprint is nil
// where no profile runs.
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

// queuePlace returns the status field for a pod that waits in place from now on.
func (s *Scheduler) queuePlace(place queue.Place) *decision.Queue {
	return &decision.Queue{Where: string(place), Since: s.now()}
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
		t.explanation = s.failureExplanation(t, err)
		s.addMessage(t, err)
	}
	s.putExplanation(*t.explanation)
}

// putExplanation adds the explanation of a pending pod to the explanation queue. It does
// not wait and does no I/O.
func (s *Scheduler) putExplanation(e decision.Explanation) {
	s.options.Explanations.Put(e)
	if !s.queue.Has(e.UID) && !fault.GoneExplained {
		// The pod was deleted, maybe before Put.
		s.options.Explanations.PodDeleted(e.Namespace, e.Pod, e.UID)
	}
}

// failureExplanation returns the explanation of an attempt that ended with err, with all
// fields that distinguish its reasons from others; the rest is left to addMessage.
func (s *Scheduler) failureExplanation(t *schedulingCycle, err error) *decision.Explanation {
	e := s.newExplanation(t.Pod, t.generation.Blueprint())
	e.Status.Result = decision.ResultError
	if resultOf(err) == decision.Unschedulable {
		e.Status.Result = decision.ResultUnschedulable
	}
	// An event that came during the attempt may activate the pod at once; then its next
	// attempt replaces this explanation.
	e.Status.Queue, e.Status.Nodes = s.queuePlace(queue.Backoff), t.nodeCounts(err)
	var fitErr *framework.FitError
	var rejected *binding.BindRejectedError
	switch {
	case errors.As(err, &fitErr):
		e.Status.Rejections, e.Status.BlockedBy = cycle.Rejections(fitErr, s.redactor(t))
		if len(fitErr.Diagnosis.UnschedulablePlugins)+len(fitErr.Diagnosis.PendingPlugins) > 0 {
			e.Status.Queue.Where = string(queue.Unschedulable)
		}
		if e.Status.Preemption = s.preemptionResult(t); t.isPreempting(e.Status.Preemption) {
			e.Status.Result = decision.ResultPreempting
		}
	case errors.As(err, &rejected):
		e.Status.BlockedBy = rejected.Plugin
	}
	if len(e.Status.Rejections) == 0 {
		// Without rejections only the message distinguishes this failure from others.
		e.Status.Message = s.redactedMessage(t, err)
	}
	return &e
}

// nodeCounts returns the node counts of an attempt that ended with err; nil when it
// evaluated no node.
func (t *schedulingCycle) nodeCounts(err error) *decision.Nodes {
	var fitErr *framework.FitError
	switch {
	case t.placement != nil:
		return decisionNodes(t.nodeCount, t.placement.Evaluated, t.placement.Feasible)
	case errors.As(err, &fitErr):
		return decisionNodes(fitErr.NumAllNodes, fitErr.Diagnosis.NodeToStatus.Len(), 0)
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

// explainPermitWait explains a pod that waits on Permit.
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

// explainBound tells the explanation queue that a pod is bound. Where the profile
// explains all pods, it first adds an explanation of the bind.
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

// explainHeld explains a pod that is held by its profile or quarantined after plugin
// faults. explainGate does so for gated pods.
func (s *Scheduler) explainHeld(pod *v1.Pod, hold queue.Hold) {
	if hold.Reason == v1.PodReasonSchedulingGated {
		return
	}
	e, ok := s.explanationWithoutAttempt(pod)
	if !ok {
		return
	}
	e.Status.Result, e.Status.Queue = decision.ResultHeld, s.queuePlace(queue.Held)
	if hold.Reason == queue.Quarantined {
		e.Status.Result = decision.ResultQuarantined
	}
	e.Status.BlockedBy, e.Status.Message = hold.Reason, hold.Message
	s.putExplanation(e)
}

// explainGate explains a pod that a PreEnqueue plugin gates.
func (s *Scheduler) explainGate(pod *v1.Pod, gate string) {
	e, ok := s.explanationWithoutAttempt(pod)
	if !ok {
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

// reexplain explains the profile's held and gated pods again, or withdraws their
// explanations, after the profile's decisions settings changed. It reads each pod's
// current state from the queue.
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

// explanationWithoutAttempt returns the explanation of a pod that is not scheduled now,
// without its reason. It returns false, and withdraws an earlier explanation, where the
// profile explains no pod.
func (s *Scheduler) explanationWithoutAttempt(pod *v1.Pod) (e decision.Explanation, ok bool) {
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
