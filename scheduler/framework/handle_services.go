package framework

import (
	"context"
	"fmt"
	"time"

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

// Volumes knows which claim holds which volume, including what is only assumed.
// The house lends one to the plugins of all generations: what was promised to a
// pod under a profile that is swapped stays promised.
//
// Objects belong to everybody: who wants to change one copies it first.
type Volumes interface {
	// Volume returns a volume as it is assumed to be. The error is a
	// NotFound, or what went wrong.
	Volume(name string) (*v1.PersistentVolume, error)
	// Claim returns a claim as it is assumed to be.
	Claim(namespace, name string) (*v1.PersistentVolumeClaim, error)
	// OfClass returns the volumes of a storage class as they are assumed to be,
	// by name; "" is the class of those without one.
	VolumesOfClass(class string) ([]*v1.PersistentVolume, error)
	// WrittenVolume and WrittenClaim return what the API server said last,
	// whatever is assumed.
	APIVolume(name string) (*v1.PersistentVolume, error)
	APIClaim(namespace, name string) (*v1.PersistentVolumeClaim, error)

	// Assume takes changed copies of volumes and claims for what they will be,
	// all or none. The error says that one of them is not what it was when it
	// was copied.
	Assume(volumes []*v1.PersistentVolume, claims []*v1.PersistentVolumeClaim) (VolumeHold, error)
	// Await calls done until it says true or fails: each second, and when one of
	// claims changed, or a volume that names it. The error is done's, why ctx ended, or
	// context.DeadlineExceeded when it took longer than limit.
	Await(ctx context.Context, limit time.Duration, claims []*v1.PersistentVolumeClaim, done func() (bool, error)) error
	// Failed counts an error at a stage: predicate, assume or bind.
	CountFailure(stage string)
}

// VolumeHold is what is assumed for one pod.
type VolumeHold interface {
	// Write tells the API server: volumes first, then claims, until one write
	// fails. What was written stays assumed until it is heard of.
	Write(ctx context.Context) error
	// Volume and Claim return what was written, nil where nothing was.
	Volume(name string) *v1.PersistentVolume
	Claim(namespace, name string) *v1.PersistentVolumeClaim
	// Release takes back what was not written. It may be called again.
	Release()
}

// VolumesHandle is a Handle that lends Volumes, as every Framework does.
type VolumesHandle interface {
	fwk.Handle
	// Volumes is nil where there are none.
	Volumes() Volumes
}

// VolumesOf returns the volumes that come with handle. The error says that it
// has none, as a Handle that is not Berth's.
func VolumesOf(handle fwk.Handle) (Volumes, error) {
	if lending, ok := handle.(VolumesHandle); ok && lending.Volumes() != nil {
		return lending.Volumes(), nil
	}
	return nil, fmt.Errorf("handle: is a %T without Volumes, want one that lends them", handle)
}
