package decision

import "github.com/berthdev/berth/api/v1alpha1"

// The words of a SchedulingDecision, for the rooms that know the users' words
// through this one only.
type (
	Status           = v1alpha1.SchedulingDecisionStatus
	DecidedBy        = v1alpha1.DecidedBy
	Nodes            = v1alpha1.DecisionNodes
	Rejection        = v1alpha1.Rejection
	ClosestNode      = v1alpha1.ClosestNode
	Missing          = v1alpha1.Missing
	Queue            = v1alpha1.DecisionQueue
	RequeueEvents    = v1alpha1.RequeueEvents
	PreemptionResult = v1alpha1.PreemptionResult
)

// What Status.Result may be; see api.md.
const (
	ResultBound           = v1alpha1.ResultBound
	ResultUnschedulable   = v1alpha1.ResultUnschedulable
	ResultGated           = v1alpha1.ResultGated
	ResultHeld            = v1alpha1.ResultHeld
	ResultWaitingOnPermit = v1alpha1.ResultWaitingOnPermit
	ResultPreempting      = v1alpha1.ResultPreempting
	ResultError           = v1alpha1.ResultError
	ResultQuarantined     = v1alpha1.ResultQuarantined
)

// What Preemption.Outcome may be.
const (
	PreemptionNoCandidates  = v1alpha1.PreemptionNoCandidates
	PreemptionNotEligible   = v1alpha1.PreemptionNotEligible
	PreemptionVictimsChosen = v1alpha1.PreemptionVictimsChosen
	PreemptionUnderWay      = v1alpha1.PreemptionUnderWay
	PreemptionFailed        = v1alpha1.PreemptionFailed
)

// Whom a profile explains.
const (
	ExplainAll  = v1alpha1.ExplainAll
	ExplainNone = v1alpha1.ExplainNone
)
