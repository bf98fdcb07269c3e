package decision

import "github.com/berthdev/berth/api/v1alpha1"

// The words of a SchedulingDecision, for the rooms that know the users' words
// through this one only.
type (
	Status     = v1alpha1.SchedulingDecisionStatus
	DecidedBy  = v1alpha1.DecidedBy
	Nodes      = v1alpha1.DecisionNodes
	Rejection  = v1alpha1.Rejection
	NearMiss   = v1alpha1.NearMiss
	Missing    = v1alpha1.Missing
	Queue      = v1alpha1.DecisionQueue
	WakesOn    = v1alpha1.WakesOn
	Preemption = v1alpha1.PreemptionTried
)

// What Status.Result may be; see api.md.
const (
	ResultBound           = v1alpha1.ResultBound
	ResultUnschedulable   = v1alpha1.ResultUnschedulable
	ResultGated           = v1alpha1.ResultGated
	ResultParked          = v1alpha1.ResultParked
	ResultWaitingOnPermit = v1alpha1.ResultWaitingOnPermit
	ResultPreempting      = v1alpha1.ResultPreempting
	ResultError           = v1alpha1.ResultError
	ResultSetAside        = v1alpha1.ResultSetAside
)

// What Preemption.Outcome may be.
const (
	NoCandidates  = v1alpha1.PreemptionNoCandidates
	NotEligible   = v1alpha1.PreemptionNotEligible
	VictimsChosen = v1alpha1.PreemptionVictimsChosen
	UnderWay      = v1alpha1.PreemptionUnderWay
	LookingFailed = v1alpha1.PreemptionFailed
)

// Whom a profile explains.
const (
	ExplainAll  = v1alpha1.ExplainAll
	ExplainNone = v1alpha1.ExplainNone
)
