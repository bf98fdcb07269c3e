package controllers

import (
	"strings"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/controllers/history"
)

// conditions returns the profile's conditions, in the order in which to read them.
// Exported,
// Degraded and Stalled are included only where they apply.
func (v observation) conditions() []conditionUpdate {
	conditions := []conditionUpdate{v.acceptedCondition(), v.resolvedRefsCondition(), v.programmedCondition()}
	ready := v.readyCondition(conditions)
	conditions = append(conditions, ready)
	if exported, ok := v.exportedCondition(); ok {
		conditions = append(conditions, exported)
	}
	if degraded, ok := v.degradedCondition(); ok {
		conditions = append(conditions, degraded)
	}
	if v.stalled() {
		conditions = append(conditions, trueCondition(v1alpha1.ConditionStalled, ready.reason, ready.message).asDerived())
	}
	return conditions
}

func (v observation) acceptedCondition() conditionUpdate {
	if c, rejected := v.rejectedCondition(v1alpha1.ConditionAccepted); rejected {
		return c
	}
	return trueCondition(v1alpha1.ConditionAccepted, v1alpha1.ReasonAccepted, v.runningMessage()+"; "+v.specName()+" is understood")
}

func (v observation) resolvedRefsCondition() conditionUpdate {
	if c, rejected := v.rejectedCondition(v1alpha1.ConditionResolvedRefs); rejected {
		return c
	}
	return trueCondition(v1alpha1.ConditionResolvedRefs, v1alpha1.ReasonResolvedRefs, v.runningMessage()+"; "+v.configRefsMessage())
}

// rejectedCondition returns a condition that is False for those errors of the rejection
// that belong to it; false when there are none. The first error gives the reason.
func (v observation) rejectedCondition(conditionType v1alpha1.ConditionType) (conditionUpdate, bool) {
	own := v.rejection.For(conditionType)
	if own == nil {
		return conditionUpdate{}, false
	}
	c := falseCondition(conditionType, v1alpha1.ConditionReason(own.Errors[0].Reason), v.rejectedMessage(own))
	c.fieldErrors = own.Errors
	return c, true
}

func (v observation) programmedCondition() conditionUpdate {
	switch {
	case v.programmed():
		return trueCondition(v1alpha1.ConditionProgrammed, v1alpha1.ReasonProgrammed, v.runningMessage()+v.trialProblemsMessage()+v.historyNotStoredMessage())
	case v.verdict == history.Crashed:
		return falseCondition(v1alpha1.ConditionProgrammed, v1alpha1.ReasonCrashedOnProbation, v.notProgrammedMessage())
	case v.trialFailed():
		return falseCondition(v1alpha1.ConditionProgrammed, v1alpha1.ReasonTrialFailed, v.notProgrammedMessage())
	case v.failure != nil:
		return falseCondition(v1alpha1.ConditionProgrammed, v1alpha1.ReasonBuildFailed, v.notProgrammedMessage())
	case v.verdict == history.AwaitingApproval:
		return falseCondition(v1alpha1.ConditionProgrammed, v1alpha1.ReasonAwaitingApproval, v.notProgrammedMessage())
	}
	reason := v1alpha1.ReasonNothingRuns
	if v.running != nil {
		reason = v1alpha1.ReasonPreviousRuns
	}
	c := falseCondition(v1alpha1.ConditionProgrammed, reason, v.notProgrammedMessage())
	c.derived = v.rejection != nil
	return c
}

// readyCondition summarizes the other conditions: the first one that is not True gives
// the reason.
func (v observation) readyCondition(others []conditionUpdate) conditionUpdate {
	for _, c := range others {
		if !c.isTrue() {
			return falseCondition(v1alpha1.ConditionReady, c.reason, v.notReadyMessage()).asDerived()
		}
	}
	if v.paused() {
		return falseCondition(v1alpha1.ConditionReady, v1alpha1.ReasonPaused, v.runningMessage()+"; paused by spec.state: its pods wait")
	}
	return trueCondition(v1alpha1.ConditionReady, v1alpha1.ReasonReady, v.runningMessage())
}

// degradedCondition returns the condition Degraded; false when the plugins of what runs
// have no degradation. The most severe degradation gives the reason.
func (v observation) degradedCondition() (conditionUpdate, bool) {
	if v.running == nil || len(v.running.Degradations) == 0 {
		return conditionUpdate{}, false
	}
	degradations := v.running.Degradations
	c := trueCondition(v1alpha1.ConditionDegraded, v1alpha1.ConditionReason(degradations[0].Reason), strings.Join(degradations.Messages(), "; "))
	c.degradations = degradations
	return c, true
}
