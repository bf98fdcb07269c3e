package decision

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
)

// The words of a SchedulingDecision, for the rooms that know the users' words
// through this one only.
type (
	Status     = v1alpha1.SchedulingDecisionStatus
	Nodes      = v1alpha1.DecisionNodes
	Rejection  = v1alpha1.Rejection
	NearMiss   = v1alpha1.NearMiss
	Missing    = v1alpha1.Missing
	Queue      = v1alpha1.DecisionQueue
	WakesOn    = v1alpha1.WakesOn
	Preemption = v1alpha1.PreemptionTried
)

// Explanation is why one pod waits, or where it went: what its
// SchedulingDecision will say. It is a value: nobody changes one after it was
// given away.
type Explanation struct {
	Namespace, Pod string
	UID            types.UID
	// Status names nodes whether or not the tenant may read them; whoever writes
	// it leaves out what the profile's detail does not allow, see Nodes.
	Status Status
	// Nodes says whether the SchedulingDecision may name nodes.
	Nodes bool
}
