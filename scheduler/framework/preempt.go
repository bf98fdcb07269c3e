package framework

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// Preemptor makes room for pods that fit nowhere by evicting others. The house
// lends one to the plugins of all generations, so that a profile that is
// swapped does not forget what it has begun.
type Preemptor interface {
	// Plan says who would have to leave so that the pod fits, and changes
	// nothing. The error is a *FitError when nobody's leaving would help, an
	// *IneligibleError when the pod may not ask, or what went wrong.
	Plan(ctx context.Context, request PreemptionRequest) (*PreemptionPlan, error)
	// CarryOut begins to evict the victims, beside the loop. When it returns,
	// UnderWay knows.
	Execute(ctx context.Context, handle fwk.Handle, eviction *PreemptionPlan)
	// UnderWay says whether victims of the pod with this UID are still being
	// told to go. Until they all are, the pod has nothing to gain from a try.
	InProgress(uid types.UID) bool
}

// PreemptorHandle is a Handle that lends a Preemptor, as every Framework does.
type PreemptorHandle interface {
	fwk.Handle
	// Preemptor is nil where nobody may be evicted.
	Preemptor() Preemptor
}

// PreemptionRequest is what a plan is made from.
type PreemptionRequest struct {
	// Handle is the plugin's: the plan is tried on the plugins of its profile.
	Handle fwk.Handle
	// State is the attempt's, as PreFilter left it. It is cloned, not changed.
	State fwk.CycleState
	Pod   *v1.Pod
	// Refusals says why the pod does not go on each node.
	NodeToStatus fwk.NodeToStatusReader
	// MinPercentage (of the nodes that might help) and MinAbsolute say how
	// many candidates are enough to choose from: the larger of the two.
	MinPercentage, MinAbsolute int32
}

// Eviction is a plan: Victims leave Node, and then Preemptor fits there.
type PreemptionPlan struct {
	// Plugin is whose plan it is; victims stopped in memory are told.
	Plugin string
	// Preemptor is the newest version of the pod that needs room.
	Preemptor *v1.Pod
	Node      string
	// Victims are the pods to evict, the most important first, at least one.
	Victims []*v1.Pod
	// Violations is how many of them a PodDisruptionBudget would have kept.
	Violations int
	// Candidates is how many plans, this one among them, it was chosen from.
	Candidates int
}

// IneligibleError says why a pod may not preempt others now.
type IneligibleError struct {
	Reason string
	// Waits says that others are leaving already.
	VictimsTerminating bool
}

func (e *IneligibleError) Error() string { return e.Reason }
