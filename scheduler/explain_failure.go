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

// explainInCycle builds the explanation of a failed cycle while the snapshot does not
// change. It computes the closest nodes and the message, which is expensive, only where
// the explanation will be written, and no closest nodes for a pod whose victims are being
// evicted.
func (s *Scheduler) explainInCycle(ctx context.Context, t *schedulingCycle, request cycle.Request, err error) {
	var fitErr *framework.FitError
	if !s.explains(t.generation.Blueprint()) || !errors.As(err, &fitErr) {
		return
	}
	t.explanation = s.failureExplanation(t, err)
	if s.options.Explanations.WouldWrite(*t.explanation) {
		if t.explanation.Status.Result != decision.ResultPreempting {
			t.explanation.Status.ClosestNodes = cycle.ClosestNodes(ctx, request, fitErr, s.redactor(t))
		}
		s.addMessage(t, err)
	}
}

// addMessage adds the fields that do not distinguish this failure from others: the
// message and the events that requeue the pod.
func (s *Scheduler) addMessage(t *schedulingCycle, err error) {
	t.explanation.Status.Message = s.redactedMessage(t, err)
	var fitErr *framework.FitError
	if errors.As(err, &fitErr) {
		plugins := fitErr.Diagnosis.UnschedulablePlugins.Union(fitErr.Diagnosis.PendingPlugins)
		t.explanation.Status.RequeueEvents = requeueEvents(t.generation, sets.List(plugins)...)
	}
}

// requeueEvents returns the events that the plugins registered, by plugin.
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

// preemptionResultKey is the CycleState key of the attempt's preemptionResult.
const preemptionResultKey fwk.StateKey = "berth.dev/PreemptionResult"

// preemptionResult is the outcome of the search for victims.
type preemptionResult decision.PreemptionResult

// Clone returns r itself, which never changes.
func (r *preemptionResult) Clone() fwk.StateData { return r }

// preemptionResultOf returns the outcome of a search that returned plan and err.
func preemptionResultOf(plan *framework.PreemptionPlan, err error) *preemptionResult {
	var fitErr *framework.FitError
	var ineligible *framework.IneligibleError
	switch {
	case err == nil:
		return &preemptionResult{Candidates: int32(plan.Candidates), Victims: int32(len(plan.Victims)), Outcome: decision.PreemptionVictimsChosen}
	case errors.As(err, &fitErr):
		return &preemptionResult{Outcome: decision.PreemptionNoCandidates}
	case errors.As(err, &ineligible) && ineligible.VictimsTerminating:
		return &preemptionResult{Outcome: decision.PreemptionUnderWay}
	case errors.As(err, &ineligible):
		return &preemptionResult{Outcome: decision.PreemptionNotEligible}
	}
	return &preemptionResult{Outcome: decision.PreemptionFailed}
}

// preemptionResult returns the outcome of preemption in the attempt; nil when no plugin
// tried it.
func (s *Scheduler) preemptionResult(t *schedulingCycle) *decision.PreemptionResult {
	if result, err := t.state.Read(preemptionResultKey); err == nil {
		return (*decision.PreemptionResult)(result.(*preemptionResult))
	}
	if s.binding.Evicting(t.Pod.UID) {
		return &decision.PreemptionResult{Outcome: decision.PreemptionUnderWay}
	}
	return nil
}

// isPreempting reports whether victims are being evicted for the pod, by Berth's own
// preemption or by a PostFilter plugin that nominated a node.
func (t *schedulingCycle) isPreempting(result *decision.PreemptionResult) bool {
	if result != nil {
		return result.Outcome == decision.PreemptionVictimsChosen || result.Outcome == decision.PreemptionUnderWay
	}
	return t.nominatingInfo != nil && t.nominatingInfo.NominatedNodeName != ""
}
