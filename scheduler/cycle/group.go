package cycle

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/podgroups"
)

// GroupUnschedulableError says that too few pods of a group fit. It is also the error of a
// pod that fits, or was not tried, in such a group. It names no plugin.
type GroupUnschedulableError struct{ Message string }

func (e *GroupUnschedulableError) Error() string { return e.Message }

// errNoMemberScheduled is the message for a group that is no gang and of which no pod fits.
const errNoMemberScheduled = "pod group is unschedulable"

// GroupMember is a pod of a group that is being scheduled, and what was decided about it.
type GroupMember struct {
	Pod *v1.Pod
	// Info is set by RunGroup. State must be empty.
	Info  *framework.PodInfo
	State *framework.CycleState

	// Placement is the pod's node; nil where it has none, with Err set. Its scores are valid
	// in GroupRequest.Decided only.
	Placement *Placement
	// Err is as that of Run, or the error of a Reserve plugin, which is a
	// *framework.FitError where it refused the pod. A pod that was not tried has the
	// group's.
	Err error
	// FilterState is the state for Filter as it was when the pod was decided, with the pods
	// before it on their nodes. It is set where GroupRequest.KeepFilterStates is.
	FilterState fwk.CycleState
	// Nominating is the node that RunGroupPostFilter nominates the pod for; nil for none.
	Nominating *fwk.NominatingInfo
	// tried says that the pod was evaluated, and not only given the group's error.
	tried bool
	// nominated is the node for which the pod was nominated before it was assumed.
	nominated string
}

// Tried reports whether the pod was evaluated: the search ends when it cannot succeed.
func (m *GroupMember) Tried() bool { return m.tried }

// A GroupMember with a Placement is what PodGroupPostFilter plugins work with.
var _ fwk.ProposedAssignment = &GroupMember{}

// GetPod returns the pod.
func (m *GroupMember) GetPod() *v1.Pod { return m.Pod }

// GetPodInfo returns the pod with what is derived from it.
func (m *GroupMember) GetPodInfo() fwk.PodInfo { return m.Info }

// GetNodeName returns the pod's node, "" for none.
func (m *GroupMember) GetNodeName() string {
	if m.Placement == nil {
		return ""
	}
	return m.Placement.Node
}

// GetCycleState returns FilterState.
func (m *GroupMember) GetCycleState() fwk.CycleState { return m.FilterState }

// NominationAfter returns what becomes of the nomination of a pod that an attempt of its group,
// which ended with groupErr, brought to no node: nil keeps it, as for a pod that fits nowhere.
// waiting is as from RunGroupPostFilter.
func (m *GroupMember) NominationAfter(groupErr error, waiting bool) *fwk.NominatingInfo {
	failed := groupErr != nil && !IsUnschedulable(groupErr)
	switch {
	case waiting:
		return m.Nominating
	case m.Err != nil && !failed:
		return nil
	}
	return &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride}
}

// Nominations are the nominated pods.
type Nominations interface {
	fwk.PodNominator
	// NominatedNode returns the node that a pod is nominated for, "" for none.
	NominatedNode(uid types.UID) string
}

// GroupRequest is the input of one attempt of a group.
type GroupRequest struct {
	// Request has the pod and the state of no member.
	Request
	Group *podgroups.Group
	// Members are the pods to schedule, in the order in which they are decided.
	Members     []*GroupMember
	Nominations Nominations
	// GroupState is that of the group's cycle. RunGroup needs an empty one. Its slices, where it
	// has some, let the loop take other work between two members.
	GroupState *framework.GroupCycleState
	// CurrentCache returns the EquivalenceCache for the next member, which may change with each
	// slice; nil where it stays that of Request.
	CurrentCache func() *EquivalenceCache
	// KeepFilterStates sets FilterState of each member that fits.
	KeepFilterStates bool
	// Before and Decided are called for each member, before and after it is decided.
	Before, Decided func(*GroupMember)
	// Deleted reports whether a member was deleted since the attempt began; may be nil.
	Deleted func(*GroupMember) bool
}

// MemberRequest returns the Request of one member.
func (r GroupRequest) MemberRequest(m *GroupMember) Request {
	request := r.Request
	request.Pod, request.State = m.Pod, m.State
	if r.CurrentCache != nil {
		request.EquivalenceCache = r.CurrentCache()
	}
	return request
}

// RunGroup decides about the members of a group one after the other: each is counted on its
// node, with what its Reserve plugins claim, while the next is decided. All of that is undone
// before RunGroup returns. It returns nil where enough of them fit, a
// *GroupUnschedulableError where they do not, and any other error where the attempt failed.
//
// kube-scheduler takes no other work in between. What changes the node of a member between two
// slices is checked in the end: if the member does not fit any more, the attempt fails. It
// fails, too, where too few members are left without those that were deleted meanwhile, of
// which kube-scheduler counts each.
//
// Source: podGroupSchedulingDefaultAlgorithm of k8s.io/kubernetes/pkg/scheduler.
func (c *Cycle) RunGroup(ctx context.Context, r GroupRequest) error {
	err := c.decideAndRevert(ctx, r)
	if err == nil {
		err = leaveOutDeleted(ctx, r)
	}
	if err == nil {
		return nil
	}
	for _, m := range r.Members {
		if !m.tried {
			m.Err = err
		}
	}
	return err
}

// decideAndRevert is RunGroup without the errors of members that were not tried.
func (c *Cycle) decideAndRevert(ctx context.Context, r GroupRequest) (err error) {
	overlay, changed := r.Snapshot.NewOverlay(), sets.New[string]()
	// Deferred, since the panic of a plugin that is called for a plugin's search is recovered, and
	// a plugin may end the goroutine.
	defer func() {
		if err != nil {
			changed = nil
		}
		if outdated := revertMembers(ctx, r, overlay, changed); outdated != nil {
			err = outdated
		}
	}()
	return c.decideMembers(ctx, r, overlay, changed)
}

// Info returns the group and its pods as plugins see them.
func (r GroupRequest) Info() *framework.PodGroupInfo {
	info := &framework.PodGroupInfo{Key: r.Group.Key, PodGroup: r.Group.PodGroup}
	for _, m := range r.Members {
		info.Unscheduled = append(info.Unscheduled, m.Pod)
	}
	return info
}

// decideMembers decides about the members, up to the one after which it is clear that too
// few fit. It adds to changed the nodes of members that changed between two slices.
func (c *Cycle) decideMembers(ctx context.Context, r GroupRequest, overlay *cache.Overlay, changed sets.Set[string]) error {
	info := r.Info()
	progress := framework.PlacementProgress{Remaining: len(r.Members), Scheduled: len(r.Group.Scheduled)}
	feasible := func() *fwk.Status { return r.Framework.RunPlacementFeasiblePlugins(ctx, r.GroupState, info, progress) }
	status, anyScheduled := feasible(), false
	if status.IsError() {
		return fmt.Errorf("failed to evaluate placement feasibility: %w", status.AsError())
	}
	for _, m := range r.Members {
		if status.Code() == fwk.Unschedulable {
			break
		}
		if err := c.decideMember(ctx, r, m, overlay); err != nil {
			return fmt.Errorf("failed to schedule other pod from a pod group: %w", err)
		}
		progress.Remaining--
		if m.Placement != nil {
			progress.Scheduled++
		}
		if status = feasible(); status.IsError() {
			return fmt.Errorf("failed to evaluate placement feasibility: %w", status.AsError())
		}
		anyScheduled = anyScheduled || m.Placement != nil && status.Code() != fwk.Unschedulable
		if slices := r.GroupState.Slices(); slices != nil && progress.Remaining > 0 && slices.Over() {
			suspended := overlay.Suspend(func(pods []*framework.PodInfo) { slices.TakeOthers(pods, true) })
			changed.Insert(suspended.UnsortedList()...)
		}
	}
	switch {
	case !status.IsSuccess():
		return &GroupUnschedulableError{status.Message()}
	case !anyScheduled:
		return &GroupUnschedulableError{errNoMemberScheduled}
	}
	return nil
}

// errDeleted is the error of a member that was deleted while the group was decided.
var errDeleted = errors.New("the pod was deleted while its group was decided")

// leaveOutDeleted takes their nodes from members that were deleted, and returns an error where
// too few are left.
func leaveOutDeleted(ctx context.Context, r GroupRequest) error {
	progress, deleted := framework.PlacementProgress{Scheduled: len(r.Group.Scheduled)}, 0
	for _, m := range r.Members {
		switch {
		case m.Placement == nil:
		case r.Deleted != nil && r.Deleted(m):
			m.Placement, m.Err = nil, errDeleted
			deleted++
		default:
			progress.Scheduled++
		}
	}
	if deleted == 0 {
		return nil
	}
	if status := r.Framework.RunPlacementFeasiblePlugins(ctx, r.GroupState, r.Info(), progress); !status.IsSuccess() {
		return fmt.Errorf("%d pods were deleted while their group was decided, so that it is tried again: %s", deleted, status.Message())
	}
	return nil
}

// decideMember chooses a node for one member and counts it there. It returns an error only
// where the attempt failed, which says nothing about the pod.
func (c *Cycle) decideMember(ctx context.Context, r GroupRequest, m *GroupMember, overlay *cache.Overlay) error {
	m.tried = true
	m.State.SetGroup(r.GroupState)
	request := r.MemberRequest(m)
	if m.Info == nil {
		var err error
		if m.Info, err = request.EquivalenceCache.PodInfo(m.Pod); err != nil {
			klog.FromContext(ctx).Error(err, "The pod's affinity is malformed; scheduling without the malformed terms")
		}
	}
	if r.Before != nil {
		r.Before(m)
	}
	placement, err := c.Run(ctx, request)
	if err == nil && r.KeepFilterStates {
		err = keepFilterState(ctx, r, m)
	}
	if err == nil {
		err = reserveMember(ctx, r, m, placement.Node, overlay)
	}
	if err != nil {
		m.Err = err
	} else {
		chosen := *placement // the next member overwrites it
		m.Placement = &chosen
	}
	if r.Decided != nil {
		r.Decided(m)
	}
	if m.Err != nil && !IsUnschedulable(m.Err) {
		return m.Err
	}
	return nil
}

// keepFilterState sets the member's FilterState. It cannot be the state of the attempt, which
// may share that of the pod's class, and counts of the snapshot that change with it.
func keepFilterState(ctx context.Context, r GroupRequest, m *GroupMember) error {
	state, status := preFilteredState(ctx, r, m)
	m.FilterState = state.Detached()
	return status.AsError()
}

// preFilteredState returns a new state of a member after PreFilter.
func preFilteredState(ctx context.Context, r GroupRequest, m *GroupMember) (*framework.CycleState, *fwk.Status) {
	state := framework.NewCycleState()
	state.SetGroup(r.GroupState)
	_, status, _ := r.Framework.RunPreFilterPlugins(ctx, state, m.Pod)
	return state, status
}

// reserveMember counts a member on its node, and runs its Reserve plugins.
func reserveMember(ctx context.Context, r GroupRequest, m *GroupMember, node string, overlay *cache.Overlay) error {
	overlay.Add(m.Info, node)
	if r.Nominations != nil {
		if m.nominated = r.Nominations.NominatedNode(m.Pod.UID); m.nominated != "" {
			r.Nominations.DeleteNominatedPodIfExists(m.Pod)
		}
	}
	reserved := false
	defer func() { // also where a plugin ends the goroutine
		if !reserved {
			revertMember(ctx, r, m, node, overlay)
		}
	}()
	status := r.Framework.RunReservePluginsReserve(ctx, m.State, m.Info.WithNode(node).GetPod(), node)
	if reserved = status.IsSuccess(); reserved {
		return nil
	}
	if !status.IsRejected() {
		return status.AsError()
	}
	diagnosis := framework.NewDiagnosis()
	diagnosis.NodeToStatus.Set(node, status)
	diagnosis.AddPluginStatus(status)
	return &framework.FitError{NumAllNodes: 1, Diagnosis: diagnosis}
}

// revertMember undoes reserveMember of the member that was reserved last.
func revertMember(ctx context.Context, r GroupRequest, m *GroupMember, node string, overlay *cache.Overlay) {
	r.Framework.RunReservePluginsUnreserve(ctx, m.State, m.Info.WithNode(node).GetPod(), node)
	overlay.RemoveLast()
	if m.nominated != "" && r.Nominations.NominatedNode(m.Pod.UID) == "" { // else it is newer
		r.Nominations.AddNominatedPod(klog.FromContext(ctx), m.Info, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: m.nominated})
	}
}

// revertMembers undoes what was done for all members, the last one first. It returns an error
// where a member on a changed node does not fit there any more, with those before it on theirs.
func revertMembers(ctx context.Context, r GroupRequest, overlay *cache.Overlay, changed sets.Set[string]) (outdated error) {
	left := len(r.Members)
	defer func() {
		if r.Members = r.Members[:left]; left > 0 { // a plugin has ended the goroutine
			_ = revertMembers(ctx, r, overlay, nil)
		}
	}()
	for left > 0 {
		left--
		m := r.Members[left]
		if m.Placement == nil {
			continue
		}
		node := m.Placement.Node
		revertMember(ctx, r, m, node, overlay)
		if outdated == nil && changed.Has(node) {
			outdated = recheckMember(ctx, r, m, node)
		}
	}
	return outdated
}

// recheckMember returns an error if a member does not fit a node any more.
func recheckMember(ctx context.Context, r GroupRequest, m *GroupMember, node string) error {
	err := errors.New("it was removed")
	if info := r.Snapshot.Node(node); info != nil {
		state, status := preFilteredState(ctx, r, m)
		if status.IsSuccess() {
			status = r.Framework.RunFilterPluginsWithNominatedPods(ctx, state, m.Pod, info)
		}
		err = status.AsError()
	}
	if err != nil {
		return fmt.Errorf("node %s has changed since pod %s of the group was decided for it, so that the group is tried again: %w", node, m.Pod.Name, err)
	}
	return nil
}

// IsUnschedulable reports whether an error of Run or RunGroup says that the pod or group
// does not fit, rather than that something failed.
func IsUnschedulable(err error) bool {
	var fitErr *framework.FitError
	var group *GroupUnschedulableError
	return errors.As(err, &fitErr) || errors.As(err, &group) || errors.Is(err, ErrNoNodes)
}
