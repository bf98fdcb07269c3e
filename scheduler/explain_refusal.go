package scheduler

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/profile"
)

// findOutWhy begins the explanation of a refusal while the snapshot stands still.
// What takes its time is found out only where it will be written; and nothing is
// missing for a pod for which others leave.
func (s *Scheduler) explainInCycle(ctx context.Context, t *schedulingCycle, request cycle.Request, err error) {
	var unfit *framework.FitError
	if !s.explains(t.generation.Blueprint()) || !errors.As(err, &unfit) {
		return
	}
	t.explanation = s.failureExplanation(t, err)
	if s.options.Explanations.WouldWrite(*t.explanation) {
		if t.explanation.Status.Result != decision.ResultPreempting {
			t.explanation.Status.ClosestNodes = cycle.ClosestNodes(ctx, request, unfit, s.redactor(t))
		}
		s.addMessage(t, err)
	}
}

// wordRefusal adds to t.why what does not tell it from another refusal.
func (s *Scheduler) addMessage(t *schedulingCycle, err error) {
	t.explanation.Status.Message = s.redactedMessage(t, err)
	var unfit *framework.FitError
	if errors.As(err, &unfit) {
		plugins := unfit.Diagnosis.UnschedulablePlugins.Union(unfit.Diagnosis.PendingPlugins)
		t.explanation.Status.RequeueEvents = requeueEvents(t.generation, sets.List(plugins)...)
	}
}

// requeueEvents are the events that plugins registered for.
func requeueEvents(generation *profile.Generation, plugins ...string) (all []decision.RequeueEvents) {
	for _, plugin := range plugins {
		if events := generation.RequeueEvents(plugin); len(events) > 0 {
			all = append(all, decision.RequeueEvents{Plugin: plugin, Events: decision.Summarize(events, func(rest []string) string {
				return fmt.Sprintf("%d more", len(rest))
			})})
		}
	}
	return decision.Summarize(all, func(rest []decision.RequeueEvents) decision.RequeueEvents {
		return decision.RequeueEvents{Plugin: fmt.Sprintf("%d more plugins", len(rest)), Events: []string{}}
	})
}

// roomSoughtKey is where an attempt's state holds what came of looking for room.
const preemptionResultKey fwk.StateKey = "berth.dev/RoomSought"

// roomSought is what came of looking for room.
type preemptionResult decision.PreemptionResult

// Clone returns the same: nobody changes it.
func (r *preemptionResult) Clone() fwk.StateData { return r }

// roomSoughtBy is what came of it when the search ended with err.
func preemptionResultOf(plan *framework.PreemptionPlan, err error) *preemptionResult {
	var hopeless *framework.FitError
	var ineligible *framework.IneligibleError
	switch {
	case err == nil:
		return &preemptionResult{Candidates: int32(plan.Candidates), Victims: int32(len(plan.Victims)), Outcome: decision.PreemptionVictimsChosen}
	case errors.As(err, &hopeless):
		return &preemptionResult{Outcome: decision.PreemptionNoCandidates}
	case errors.As(err, &ineligible) && ineligible.VictimsTerminating:
		return &preemptionResult{Outcome: decision.PreemptionUnderWay}
	case errors.As(err, &ineligible):
		return &preemptionResult{Outcome: decision.PreemptionNotEligible}
	}
	return &preemptionResult{Outcome: decision.PreemptionFailed}
}

// roomSought is what came of looking for room in the turn; nil when nobody did.
func (s *Scheduler) preemptionResult(t *schedulingCycle) *decision.PreemptionResult {
	if note, err := t.state.Read(preemptionResultKey); err == nil {
		return (*decision.PreemptionResult)(note.(*preemptionResult))
	}
	if s.binding.Evicting(t.Pod.UID) {
		return &decision.PreemptionResult{Outcome: decision.PreemptionUnderWay}
	}
	return nil
}

// othersLeave says whether others are leaving for the pod, as tried has it or a
// PostFilter plugin that promises the pod room.
func (t *schedulingCycle) isPreempting(tried *decision.PreemptionResult) bool {
	if tried != nil {
		return tried.Outcome == decision.PreemptionVictimsChosen || tried.Outcome == decision.PreemptionUnderWay
	}
	return t.nominatingInfo != nil && t.nominatingInfo.NominatedNodeName != ""
}
