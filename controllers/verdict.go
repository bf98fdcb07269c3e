package controllers

import (
	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/controllers/history"
)

// rulings are the profile's conditions, in the order in which a reader should
// ask for them. Stalled is there only when the user must act.
func (v visit) rulings() []ruling {
	rulings := []ruling{v.accepted(), v.resolvedRefs(), v.programmedRuling()}
	ready := v.ready(rulings)
	rulings = append(rulings, ready)
	if exported, asked := v.exportRuling(); asked {
		rulings = append(rulings, exported)
	}
	if v.stalled() {
		rulings = append(rulings, yes(v1alpha1.ConditionStalled, ready.reason, ready.message).repeating())
	}
	return rulings
}

func (v visit) accepted() ruling {
	if r, refused := v.refused(v1alpha1.ConditionAccepted); refused {
		return r
	}
	return yes(v1alpha1.ConditionAccepted, v1alpha1.ReasonAccepted, v.standing()+"; "+v.title()+" is understood")
}

func (v visit) resolvedRefs() ruling {
	if r, refused := v.refused(v1alpha1.ConditionResolvedRefs); refused {
		return r
	}
	return yes(v1alpha1.ConditionResolvedRefs, v1alpha1.ReasonResolvedRefs, v.standing()+"; "+v.references())
}

// refused rules on a condition by those faults of the rejection that are its
// own; the first one gives the reason.
func (v visit) refused(condition v1alpha1.ConditionType) (ruling, bool) {
	own := v.rejection.For(condition)
	if own == nil {
		return ruling{}, false
	}
	r := no(condition, v1alpha1.ConditionReason(own.Faults[0].Reason), v.refusal(own))
	r.faults = own.Faults
	return r, true
}

func (v visit) programmedRuling() ruling {
	switch {
	case v.programmed():
		return yes(v1alpha1.ConditionProgrammed, v1alpha1.ReasonProgrammed, v.standing()+v.losses()+v.unkept())
	case v.verdict == history.Crashed:
		return no(v1alpha1.ConditionProgrammed, v1alpha1.ReasonCrashedOnProbation, v.trouble())
	case v.failedTrial():
		return no(v1alpha1.ConditionProgrammed, v1alpha1.ReasonTrialFailed, v.trouble())
	case v.failure != nil:
		return no(v1alpha1.ConditionProgrammed, v1alpha1.ReasonBuildFailed, v.trouble())
	case v.verdict == history.Awaiting:
		return no(v1alpha1.ConditionProgrammed, v1alpha1.ReasonAwaitingApproval, v.trouble())
	}
	reason := v1alpha1.ReasonNothingRuns
	if v.running != nil {
		reason = v1alpha1.ReasonPreviousRuns
	}
	r := no(v1alpha1.ConditionProgrammed, reason, v.trouble())
	r.repeats = v.rejection != nil
	return r
}

// ready sums the others up: the first that does not hold gives the reason.
func (v visit) ready(others []ruling) ruling {
	for _, r := range others {
		if !r.holds() {
			return no(v1alpha1.ConditionReady, r.reason, v.trouble()).repeating()
		}
	}
	if v.paused() {
		return no(v1alpha1.ConditionReady, v1alpha1.ReasonPaused, v.standing()+"; paused by spec.state: its pods wait")
	}
	return yes(v1alpha1.ConditionReady, v1alpha1.ReasonReady, v.standing())
}
