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
	return s.options.Desk != nil && blueprint.Decisions.Explains()
}

// explanation begins the explanation of a pod. blueprint is nil where no profile
// runs.
func (s *Scheduler) explanation(pod *v1.Pod, blueprint *compile.Blueprint) decision.Explanation {
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
func (s *Scheduler) rests(where queue.Place) *decision.Queue {
	return &decision.Queue{Where: string(where), Since: s.now()}
}

// explainRefused explains an attempt that ended with err. It comes before the
// attempt ends.
func (s *Scheduler) explainRefused(t *turn, err error) {
	switch {
	case s.options.Desk == nil:
		return
	case !s.explains(t.generation.Blueprint()):
		// What was said of it under other settings is not true any more.
		s.options.Desk.Unsay(t.Pod.Namespace, t.Pod.Name, t.Pod.UID)
		return
	}
	if t.why == nil {
		t.why = s.whyRefused(t, err)
		s.wordRefusal(t, err)
	}
	s.put(*t.why)
}

// put puts the explanation of a pod that waits.
func (s *Scheduler) put(e decision.Explanation) {
	s.options.Desk.Put(e)
	if !s.queue.Has(e.UID) && !fault.GoneExplained {
		// It is gone, and the Desk may have heard of that before us.
		s.options.Desk.Gone(e.Namespace, e.Pod, e.UID)
	}
}

// whyRefused is the explanation of an attempt that ended with err, as far as it
// tells one from another.
func (s *Scheduler) whyRefused(t *turn, err error) *decision.Explanation {
	e := s.explanation(t.Pod, t.generation.Blueprint())
	e.Status.Result = decision.ResultError
	if resultOf(err) == decision.Unschedulable {
		e.Status.Result = decision.ResultUnschedulable
	}
	// It may be woken at once by what happened meanwhile; then it is tried, and
	// there is something else to say.
	e.Status.Queue, e.Status.Nodes = s.rests(queue.Backoff), t.counted(err)
	var unfit *framework.FitError
	var declined *binding.Declined
	switch {
	case errors.As(err, &unfit):
		e.Status.Rejections, e.Status.BlockedBy = cycle.Rejections(unfit, s.wording(t))
		if len(unfit.Diagnosis.Unschedulable)+len(unfit.Diagnosis.Pending) > 0 {
			e.Status.Queue.Where = string(queue.Unschedulable)
		}
		if e.Status.Preemption = s.roomSought(t); t.othersLeave(e.Status.Preemption) {
			e.Status.Result = decision.ResultPreempting
		}
	case errors.As(err, &declined):
		e.Status.BlockedBy = declined.Plugin
	}
	if len(e.Status.Rejections) == 0 {
		// There is nothing but the text to tell it from another one.
		e.Status.Message = s.message(t, err)
	}
	return &e
}

// counted counts the nodes of an attempt that ended with err; nil when none was
// looked at.
func (t *turn) counted(err error) *decision.Nodes {
	var unfit *framework.FitError
	switch {
	case t.placement != nil:
		return nodes(t.nodes, t.placement.Evaluated, t.placement.Feasible)
	case errors.As(err, &unfit):
		return nodes(unfit.Nodes, unfit.Diagnosis.Refusals.Len(), 0)
	case errors.Is(err, cycle.ErrNoNodes):
		return nodes(0, 0, 0)
	}
	return nil
}

func nodes(total, evaluated, feasible int) *decision.Nodes {
	return &decision.Nodes{
		Total: int32(total), Evaluated: int32(evaluated), Feasible: int32(feasible), Summary: fmt.Sprintf("%d/%d", feasible, total),
	}
}

// explainWait explains a pod that waits at Permit.
func (s *Scheduler) explainWait(t *turn) {
	if !s.explains(t.generation.Blueprint()) {
		return
	}
	waiting := s.waiting.Get(t.Pod.UID)
	if waiting == nil {
		return
	}
	e := s.explanation(t.Pod, t.generation.Blueprint())
	e.Status.Result, e.Status.Nodes, e.Status.Queue = decision.ResultWaitingOnPermit, t.counted(nil), s.rests(queue.InFlight)
	e.Status.BlockedBy = strings.Join(waiting.GetPendingPlugins(), ", ")
	e.Status.Message = "a node is chosen; the pod waits for " + e.Status.BlockedBy
	s.put(e)
}

// explainBound has the Desk know that a pod is bound, and explains where it went
// if the profile explains all.
func (s *Scheduler) explainBound(t *turn, d decision.Decision) {
	if s.options.Desk == nil {
		return
	}
	if blueprint := t.generation.Blueprint(); blueprint.Decisions.Explain == decision.ExplainAll {
		e := s.explanation(t.Pod, blueprint)
		e.Status.Result, e.Status.Nodes = decision.ResultBound, t.counted(nil)
		s.options.Desk.Put(e)
		if s.left(t) {
			s.options.Desk.Gone(d.Namespace, d.Pod, d.UID)
			return
		}
	}
	s.options.Desk.Bound(d.Namespace, d.Pod, d.UID)
}

// explainHeld explains a pod that is kept out of scheduling by its profile, or
// because plugins go wrong at it. That a gate holds it instead the gate tells.
func (s *Scheduler) explainHeld(pod *v1.Pod, hold queue.Hold) {
	if hold.Reason == v1.PodReasonSchedulingGated {
		return
	}
	e, explained := s.explanationAtRest(pod)
	if !explained {
		return
	}
	e.Status.Result, e.Status.Queue = decision.ResultParked, s.rests(queue.Parked)
	if hold.Reason == queue.SetAside {
		e.Status.Result = decision.ResultSetAside
	}
	e.Status.BlockedBy, e.Status.Message = hold.Reason, hold.Message
	s.put(e)
}

// explainGate explains a pod that a PreEnqueue plugin keeps from being tried.
func (s *Scheduler) explainGate(pod *v1.Pod, gate string) {
	e, explained := s.explanationAtRest(pod)
	if !explained {
		return
	}
	e.Status.Result, e.Status.Queue = decision.ResultGated, s.rests(queue.Gated)
	e.Status.Queue.Gate, e.Status.BlockedBy = gate, gate
	e.Status.Message = queue.GateMessage(gate)
	if s.binding.Evicting(pod.UID) {
		e.Status.Result, e.Status.Preemption = decision.ResultPreempting, &decision.Preemption{Outcome: decision.UnderWay}
	}
	if generation, ok := s.profiles.Acquire(pod.Spec.SchedulerName); ok {
		e.Status.WakesOn = wakesOn(generation, gate)
		generation.Release()
	}
	s.put(e)
}

// explainAgain explains the pods of a profile that are held or gated, or takes
// back what was explained: since the profile has more told of them, or less. Each
// is as the queue has it by now.
func (s *Scheduler) explainAgain(profile string) {
	if !s.leads() {
		return
	}
	for _, pod := range inOrder(s.queue.Held()) {
		if pod.Spec.SchedulerName != profile {
			continue
		}
		if hold, held := s.queue.HoldOf(pod.UID); held {
			s.explainHeld(pod, hold)
		}
	}
	for _, pod := range inOrder(s.queue.Gates()) {
		if pod.Spec.SchedulerName != profile {
			continue
		}
		if gate, gated := s.queue.GateOf(pod.UID); gated {
			s.explainGate(pod, gate)
		}
	}
}

// explanationAtRest begins the explanation of a pod that is not tried, unless
// its profile explains none.
func (s *Scheduler) explanationAtRest(pod *v1.Pod) (e decision.Explanation, explained bool) {
	if s.options.Desk == nil {
		return e, false
	}
	running, _ := s.profiles.Running(pod.Spec.SchedulerName)
	if running.Blueprint != nil && !s.explains(running.Blueprint) {
		s.options.Desk.Unsay(pod.Namespace, pod.Name, pod.UID)
		return e, false
	}
	return s.explanation(pod, running.Blueprint), true
}
