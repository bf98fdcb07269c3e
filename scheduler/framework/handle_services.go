package framework

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"
)

// Preemptor evicts pods to make room for pods that do not fit. All Generations
// share one, so that preemptions in progress survive a profile swap.
type Preemptor interface {
	// Plan finds the pods to evict so that the pod fits, and changes nothing
	// but the Preemption of the request's State.
	// The error is a *FitError if no victims would make room, an
	// *IneligibleError if the pod may not preempt, or the error of a plugin or
	// client.
	Plan(ctx context.Context, request PreemptionRequest) (*PreemptionPlan, error)
	// PlanGroup finds the pods to evict so that the request's group fits. It is called in
	// PodGroupPostFilter, and changes nothing. The plan has no victims where the group only
	// has to wait for those of an earlier one. A status that is no success says why there is
	// no plan.
	PlanGroup(ctx context.Context, request GroupPreemptionRequest) (*GroupPreemptionPlan, *fwk.Status)
	// Execute starts to evict the victims asynchronously. InProgress reports
	// true from before it returns.
	Execute(ctx context.Context, handle fwk.Handle, eviction *PreemptionPlan)
	// InProgress reports whether evictions for the pod with this UID are still
	// being requested. Until they are, another attempt of the pod cannot
	// succeed.
	InProgress(uid types.UID) bool
}

// PreemptorHandle is a Handle with a Preemptor. Every Framework is one.
type PreemptorHandle interface {
	fwk.Handle
	// Preemptor may return nil.
	Preemptor() Preemptor
}

// PreemptionRequest is the input of Preemptor.Plan.
type PreemptionRequest struct {
	// Handle is the calling plugin's; the plan is evaluated with the plugins of
	// its profile.
	Handle fwk.Handle
	// State is the attempt's state after PreFilter. Its data is cloned, not
	// changed.
	State fwk.CycleState
	Pod   *v1.Pod
	// NodeToStatus says why the pod does not fit on each node.
	NodeToStatus fwk.NodeToStatusReader
	// MinPercentage (of the nodes where preemption might help) and MinAbsolute
	// give the number of candidates to choose from: the larger of the two.
	MinPercentage, MinAbsolute int32
}

// GroupPreemptionRequest is the input of Preemptor.PlanGroup.
type GroupPreemptionRequest struct {
	// Handle is the calling plugin's.
	Handle fwk.Handle
	// State is the state of the group's attempt.
	State fwk.PodGroupCycleState
	Group fwk.PodGroupInfo
	// Schedule decides about the group in the snapshot as it is then.
	Schedule fwk.PodGroupSchedulingFunc
}

// GroupPreemptionPlan says that a group fits after the victims are evicted.
type GroupPreemptionPlan struct {
	// PreemptionPlan is nil where victims of an earlier plan still terminate, which are
	// Terminating.
	*PreemptionPlan
	Terminating []*v1.Pod
	// Nominations are the nodes for the pods of the group.
	Nominations map[types.NamespacedName]*fwk.NominatingInfo
}

// PreemptionPlan says that Preemptor fits on Node after Victims are evicted.
type PreemptionPlan struct {
	// Plugin is the plugin that asked for the plan. Victims at Permit are
	// stopped in its name.
	Plugin string
	// Preemptor is the newest version of the preempting pod; of a group, the first of its
	// pods.
	Preemptor *v1.Pod
	// Group is the preempting group; nil for a pod.
	Group fwk.PodGroupInfo
	// Node is the node of the victims; ClusterDomain for a group.
	Node string
	// Victims are the pods to evict, the most important first; at least one.
	Victims []*v1.Pod
	// Violations is how many victims a PodDisruptionBudget protects.
	Violations int
	// GroupDisruptions is the number of victims that are groups, or pods of groups.
	GroupDisruptions int
	// Candidates is the number of plans from which this one was chosen, itself
	// included.
	Candidates int
}

// ClusterDomain is what the plan of a group calls the node of its victims, as kube-scheduler
// does.
const ClusterDomain = "cluster"

// VictimNodes returns on how many nodes pods are.
func VictimNodes(victims []*v1.Pod) int {
	nodes := sets.New[string]()
	for _, victim := range victims {
		nodes.Insert(victim.Spec.NodeName)
	}
	return nodes.Len()
}

// Preemptors returns the preempting pod, or the pods of the preempting group.
func (p *PreemptionPlan) Preemptors() []*v1.Pod {
	if p.Group != nil {
		return p.Group.GetUnscheduledPods()
	}
	return []*v1.Pod{p.Preemptor}
}

// Kind returns what kube-scheduler calls the preemptor: pod or podgroup.
func (p *PreemptionPlan) Kind() string {
	if p.Group != nil {
		return string(fwk.PodGroupKeyType)
	}
	return string(fwk.PodKeyType)
}

// UID returns that of the preempting pod or PodGroup. A group that is in no API server has
// that of its first pod.
func (p *PreemptionPlan) UID() types.UID {
	if p.Group != nil && p.Group.GetPodGroup().UID != "" {
		return p.Group.GetPodGroup().UID
	}
	return p.Preemptor.UID
}

// PreemptionSearch is what Preemptor.Plan, or PlanGroup, returned in an attempt.
type PreemptionSearch struct {
	Plan *PreemptionPlan
	Err  error
	// Terminating are victims of an earlier plan for a group, which it waits for.
	Terminating []*v1.Pod
}

// IneligibleError says why a pod may not preempt others now.
type IneligibleError struct {
	Reason string
	// VictimsTerminating says that victims of an earlier preemption are still
	// terminating.
	VictimsTerminating bool
}

func (e *IneligibleError) Error() string { return e.Reason }

// Volumes holds PersistentVolumes and claims including what the scheduler
// assumes about them. All Generations share one, so that assumptions survive a
// profile swap.
//
// Returned objects are shared: callers copy before they change one.
type Volumes interface {
	// Volume returns a volume including assumptions. The error may be a
	// NotFound.
	Volume(name string) (*v1.PersistentVolume, error)
	// Claim returns a claim including assumptions. The error may be a NotFound.
	Claim(namespace, name string) (*v1.PersistentVolumeClaim, error)
	// VolumesOfClass returns the volumes of a storage class including
	// assumptions, by name; "" means volumes without a class.
	VolumesOfClass(class string) ([]*v1.PersistentVolume, error)
	// APIVolume and APIClaim return the newest object of the informer, without
	// assumptions.
	APIVolume(name string) (*v1.PersistentVolume, error)
	APIClaim(namespace, name string) (*v1.PersistentVolumeClaim, error)

	// Assume stores changed copies of volumes and claims as assumptions, all or
	// none. It is an error if one of the objects has changed since it was
	// copied.
	Assume(volumes []*v1.PersistentVolume, claims []*v1.PersistentVolumeClaim) (VolumeHold, error)
	// Await calls done until it returns true or an error: every second, and
	// when one of claims or a volume bound to it changes. It returns done's
	// error, the cause of ctx's end, or context.DeadlineExceeded after limit.
	Await(ctx context.Context, limit time.Duration, claims []*v1.PersistentVolumeClaim, done func() (bool, error)) error
	// CountFailure counts an error in a metric by stage: predicate, assume or
	// bind.
	CountFailure(stage string)
}

// VolumeHold holds what is assumed for one pod.
type VolumeHold interface {
	// Write writes the volumes and then the claims to the API server, and stops
	// at the first error. Written objects stay assumed until the informer
	// delivers them.
	Write(ctx context.Context) error
	// Volume and Claim return the written object, nil if it was not written.
	Volume(name string) *v1.PersistentVolume
	Claim(namespace, name string) *v1.PersistentVolumeClaim
	// Release drops the assumptions that were not written. seen says that other
	// attempts may have seen them: then the pods that were rejected because of
	// them are requeued. It may be called again.
	Release(seen bool)
}

// VolumesHandle is a Handle with Volumes. Every Framework is one.
type VolumesHandle interface {
	fwk.Handle
	// Volumes may return nil.
	Volumes() Volumes
}

// VolumesOf returns the Volumes of handle, or an error if handle has none
// because it is not a Framework.
func VolumesOf(handle fwk.Handle) (Volumes, error) {
	if lending, ok := handle.(VolumesHandle); ok && lending.Volumes() != nil {
		return lending.Volumes(), nil
	}
	return nil, fmt.Errorf("handle: is a %T without Volumes, want one that has them", handle)
}

// ClockHandle is a Handle with the clock of the scheduler. Every Framework is one.
type ClockHandle interface {
	fwk.Handle
	SchedulerClock() clock.PassiveClock
}

// ClockOf returns the clock of handle; the real clock if handle has none.
func ClockOf(handle fwk.Handle) clock.PassiveClock {
	if timed, ok := handle.(ClockHandle); ok {
		return timed.SchedulerClock()
	}
	return clock.RealClock{}
}
