package decision

import (
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
)

// Names of the API's types, for packages that must not import the API.
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

// The values of Status.Result; see the API reference.
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

// The values of PreemptionResult.Outcome.
const (
	PreemptionNoCandidates  = v1alpha1.PreemptionNoCandidates
	PreemptionNotEligible   = v1alpha1.PreemptionNotEligible
	PreemptionVictimsChosen = v1alpha1.PreemptionVictimsChosen
	PreemptionUnderWay      = v1alpha1.PreemptionUnderWay
	PreemptionFailed        = v1alpha1.PreemptionFailed
)

// The values of a profile's decisions.explain.
const (
	ExplainAll  = v1alpha1.ExplainAll
	ExplainNone = v1alpha1.ExplainNone
)

// Explanation says why one pod is pending, or where it was bound: the content of its
// SchedulingDecision. It is a value: nobody changes it after it was put into the queue.
type Explanation struct {
	Namespace, Pod string
	UID            types.UID
	// Status names nodes whether or not the tenant may read them. The writer leaves out what
	// Nodes forbids.
	Status Status
	// Nodes says whether the SchedulingDecision may name nodes.
	Nodes bool
}

// MaxExplanation is how many characters a SchedulingDecision's message may have,
// MaxReasons how many entries each of its lists may have.
const (
	MaxExplanation = v1alpha1.MaxExplanation
	MaxReasons     = v1alpha1.MaxReasons
)

// Truncate cuts text to at most limit characters; the last one is then an ellipsis.
func Truncate(text string, limit int) string {
	if len(text) <= limit || utf8.RuneCountInString(text) <= limit {
		return text
	}
	end, kept := 0, 0
	for end = range text {
		if kept == limit-1 {
			break
		}
		kept++
	}
	return text[:end] + "…"
}

// Summarize returns all when it has at most MaxReasons entries. Otherwise it keeps
// MaxReasons-1 entries and appends sum's entry for the rest, which is at least two.
func Summarize[T any](all []T, sum func(rest []T) T) []T {
	if len(all) <= MaxReasons {
		return all
	}
	kept := all[: MaxReasons-1 : MaxReasons-1]
	return append(kept, sum(all[MaxReasons-1:]))
}
