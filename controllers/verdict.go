package controllers

import (
	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/controllers/history"
)

// rulings are the profile's conditions, in the order in which a reader should
// ask for them. Stalled is there only when the user must act.
func (v observation) conditions() []conditionUpdate {
	rulings := []conditionUpdate{v.acceptedCondition(), v.resolvedRefsCondition(), v.programmedCondition()}
	ready := v.readyCondition(rulings)
	rulings = append(rulings, ready)
	if exported, asked := v.exportedCondition(); asked {
		rulings = append(rulings, exported)
	}
	if v.stalled() {
		rulings = append(rulings, trueCondition(v1alpha1.ConditionStalled, ready.reason, ready.message).asDerived())
	}
	return rulings
}

func (v observation) acceptedCondition() conditionUpdate {
	if r, refused := v.rejectedCondition(v1alpha1.ConditionAccepted); refused {
		return r
	}
	return trueCondition(v1alpha1.ConditionAccepted, v1alpha1.ReasonAccepted, v.runningMessage()+"; "+v.specName()+" is understood")
}

func (v observation) resolvedRefsCondition() conditionUpdate {
	if r, refused := v.rejectedCondition(v1alpha1.ConditionResolvedRefs); refused {
		return r
	}
	return trueCondition(v1alpha1.ConditionResolvedRefs, v1alpha1.ReasonResolvedRefs, v.runningMessage()+"; "+v.configRefsMessage())
}

// refused rules on a condition by those faults of the rejection that are its
// own; the first one gives the reason.
func (v observation) rejectedCondition(condition v1alpha1.ConditionType) (conditionUpdate, bool) {
	own := v.rejection.For(condition)
	if own == nil {
		return conditionUpdate{}, false
	}
	r := falseCondition(condition, v1alpha1.ConditionReason(own.Errors[0].Reason), v.rejectedMessage(own))
	r.faults = own.Errors
	return r, true
}

func (v observation) programmedCondition() conditionUpdate {
	switch {
	case v.programmed():
		return trueCondition(v1alpha1.ConditionProgrammed, v1alpha1.ReasonProgrammed, v.runningMessage()+v.lostPodsMessage()+v.historyNotStoredMessage())
	case v.verdict == history.Crashed:
		return falseCondition(v1alpha1.ConditionProgrammed, v1alpha1.ReasonCrashedOnProbation, v.notReadyMessage())
	case v.trialFailed():
		return falseCondition(v1alpha1.ConditionProgrammed, v1alpha1.ReasonTrialFailed, v.notReadyMessage())
	case v.failure != nil:
		return falseCondition(v1alpha1.ConditionProgrammed, v1alpha1.ReasonBuildFailed, v.notReadyMessage())
	case v.verdict == history.AwaitingApproval:
		return falseCondition(v1alpha1.ConditionProgrammed, v1alpha1.ReasonAwaitingApproval, v.notReadyMessage())
	}
	reason := v1alpha1.ReasonNothingRuns
	if v.running != nil {
		reason = v1alpha1.ReasonPreviousRuns
	}
	r := falseCondition(v1alpha1.ConditionProgrammed, reason, v.notReadyMessage())
	r.derived = v.rejection != nil
	return r
}

// ready sums the others up: the first that does not hold gives the reason.
func (v observation) readyCondition(others []conditionUpdate) conditionUpdate {
	for _, r := range others {
		if !r.isTrue() {
			return falseCondition(v1alpha1.ConditionReady, r.reason, v.notReadyMessage()).asDerived()
		}
	}
	if v.paused() {
		return falseCondition(v1alpha1.ConditionReady, v1alpha1.ReasonPaused, v.runningMessage()+"; paused by spec.state: its pods wait")
	}
	return trueCondition(v1alpha1.ConditionReady, v1alpha1.ReasonReady, v.runningMessage())
}
