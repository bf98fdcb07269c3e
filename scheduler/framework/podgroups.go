package framework

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/podgroups"
)

// PlacementFeasiblePlugin says whether enough pods of a group fit. The extension point is
// not in k8s.io/kube-scheduler/framework: as in kube-scheduler, only GangScheduling has it.
type PlacementFeasiblePlugin interface {
	fwk.Plugin
	// PlacementFeasible is called before the first member of a group is decided, and after
	// each. It returns Success if enough of them fit, Wait if enough of them may fit yet, and
	// Unschedulable if that is impossible.
	PlacementFeasible(ctx context.Context, state fwk.PlacementCycleState, group fwk.PodGroupInfo, progress PlacementProgress) *fwk.Status
}

// GroupEventsPlugin is a plugin that registers only events of pods and PodGroups, and whose
// answers about a pod change only by those of the pod's own group. The queue evaluates no
// such event for the pods of other groups.
type GroupEventsPlugin interface {
	fwk.EnqueueExtensions
	HasGroupEvents()
}

// PlacementProgress is how far the cycle of a group is.
type PlacementProgress struct {
	// Remaining is the number of pods that are not decided yet, Scheduled of those that have
	// a node, earlier ones included.
	Remaining, Scheduled int
}

// PodGroupsHandle is a Handle that has the groups of pods.
type PodGroupsHandle interface {
	fwk.Handle
	// PodGroups returns the groups of pods; may be nil.
	PodGroups() *podgroups.Store
}

var _ PodGroupsHandle = &Framework{}

// PodGroups returns the groups of pods; may be nil.
func (f *Framework) PodGroups() *podgroups.Store { return f.Groups }

// PodGroupManager shows the groups that spec.schedulingGroup names; nil if there are none.
func (f *Framework) PodGroupManager() fwk.PodGroupManager {
	if f.Groups == nil {
		return nil
	}
	return f.Groups
}

// SchedulesGroups reports whether the profile schedules the pods of a group together: it has
// a plugin that says whether enough of them fit.
func (f *Framework) SchedulesGroups() bool { return len(f.placementFeasible) > 0 }

// IsPlacementFeasiblePlugin reports whether a plugin says whether enough pods of a group fit.
func (f *Framework) IsPlacementFeasiblePlugin(name string) bool {
	return slices.ContainsFunc(f.placementFeasible, func(plugin PlacementFeasiblePlugin) bool { return plugin.Name() == name })
}

// HasPodGroupPostFilterPlugins reports whether there are PodGroupPostFilter plugins.
func (f *Framework) HasPodGroupPostFilterPlugins() bool { return len(f.podGroupPostFilter) > 0 }

// RunPlacementFeasiblePlugins calls PlacementFeasible of every plugin until one returns
// Unschedulable or an error.
func (f *Framework) RunPlacementFeasiblePlugins(ctx context.Context, state fwk.PlacementCycleState, group fwk.PodGroupInfo, progress PlacementProgress) (status *fwk.Status) {
	for _, plugin := range f.placementFeasible {
		s := f.callRecovered(nil, nil, plugin.Name(), "PlacementFeasible", func() *fwk.Status {
			return plugin.PlacementFeasible(ctx, state, group, progress)
		})
		switch {
		case s.IsSuccess():
		case s.IsWait():
			status = s.WithPlugin(plugin.Name())
		case s.Code() == fwk.Unschedulable:
			return s.WithPlugin(plugin.Name())
		default:
			return fwk.AsStatus(fmt.Errorf("running PlacementFeasible plugin %q: %w", plugin.Name(), s.AsError())).WithPlugin(plugin.Name())
		}
	}
	return status
}

// RunPodGroupPostFilterPlugins calls PodGroupPostFilter of one plugin after the other until one
// succeeds. The reasons of the others are combined. schedule decides about the group again, in
// the snapshot as the plugin has changed it.
func (f *Framework) RunPodGroupPostFilterPlugins(ctx context.Context, state fwk.PodGroupCycleState, group fwk.PodGroupInfo, schedule fwk.PodGroupSchedulingFunc) (result *fwk.PodGroupPostFilterResult, status *fwk.Status) {
	f.inPodGroupPostFilter = true
	defer func() { f.inPodGroupPostFilter = false }()
	var reasons []string
	rejector := ""
	for _, plugin := range f.podGroupPostFilter {
		var r *fwk.PodGroupPostFilterResult
		s := f.callRecovered(nil, nil, plugin.Name(), "PodGroupPostFilter", func() (s *fwk.Status) {
			r, s = plugin.PodGroupPostFilter(ctx, state, group, schedule)
			return s
		})
		if f.endMutations != nil {
			if err := f.endMutations(); err != nil {
				return nil, fwk.AsStatus(err).WithPlugin(plugin.Name())
			}
			f.endMutations = nil
		}
		switch {
		case s.IsSuccess() && r == nil:
			return nil, fwk.AsStatus(fmt.Errorf("PodGroupPostFilter plugin %q returned success without a result", plugin.Name())).WithPlugin(plugin.Name())
		case s == nil:
			return r, fwk.NewStatus(fwk.Success).WithPlugin(plugin.Name())
		case s.IsSuccess(), s.Code() == fwk.UnschedulableAndUnresolvable:
			return r, s.WithPlugin(plugin.Name())
		case s.Code() != fwk.Unschedulable:
			return nil, fwk.AsStatus(fmt.Errorf("error in %q PodGroupPostFilter plugins: %w", plugin.Name(), s.AsError())).WithPlugin(plugin.Name())
		}
		reasons = append(reasons, s.Reasons()...)
		if rejector == "" {
			rejector = plugin.Name()
		}
	}
	return nil, fwk.NewStatus(fwk.Unschedulable, reasons...).WithPlugin(rejector)
}

// FilterReadsOtherPods reports whether a Filter plugin that runs with this state may read more
// than its node: pods of other nodes, or what Reserve plugins claim.
func (f *Framework) FilterReadsOtherPods(state fwk.CycleState) bool {
	for _, filter := range f.filter {
		if state.GetSkipFilterPlugins().Has(filter.Name()) {
			continue
		}
		reads := ReadsOf(filter.FilterPlugin).Filter
		if isOpaque(filter.FilterPlugin) || reads&(DomainCounts|ClaimsInUse|StorageObjects|DeviceObjects) != 0 {
			return true
		}
	}
	return false
}

// PodGroupInfo is a group, and its pods that are being scheduled, as plugins see them.
type PodGroupInfo struct {
	Key         podgroups.Key
	PodGroup    *schedulingv1beta1.PodGroup
	Unscheduled []*v1.Pod
}

var _ fwk.PodGroupInfo = &PodGroupInfo{}

// GetUnscheduledPods returns the pods that are being scheduled, in order.
func (g *PodGroupInfo) GetUnscheduledPods() []*v1.Pod { return g.Unscheduled }

// GetName returns the group's name.
func (g *PodGroupInfo) GetName() string { return g.Key.Name }

// GetNamespace returns the group's namespace.
func (g *PodGroupInfo) GetNamespace() string { return g.Key.Namespace }

// GetType returns that this is no group of groups.
func (g *PodGroupInfo) GetType() fwk.EntityKeyType { return fwk.PodGroupKeyType }

// GetKey returns a string that no other group has.
func (g *PodGroupInfo) GetKey() string { return g.Key.String() }

// GetPodGroup returns the group's PodGroup, which may be in no API server.
func (g *PodGroupInfo) GetPodGroup() *schedulingv1beta1.PodGroup { return g.PodGroup }

// GetCompositePodGroup returns nil, since this is no group of groups.
func (g *PodGroupInfo) GetCompositePodGroup() *schedulingv1alpha3.CompositePodGroup { return nil }

// GetChildren returns nil, since this is no group of groups.
func (g *PodGroupInfo) GetChildren() []fwk.PodGroupInfo { return nil }

// GroupCycleState holds the data that plugins store for the attempt of a group. It is the
// state of the group and that of its one placement.
type GroupCycleState struct {
	CycleState
	slices GroupSlices
}

var (
	_ fwk.PodGroupCycleState  = &GroupCycleState{}
	_ fwk.PlacementCycleState = &GroupCycleState{}
)

// GetParentPlacementCycleState returns nil, since there are no groups of groups.
func (s *GroupCycleState) GetParentPlacementCycleState() fwk.PlacementCycleState { return nil }

// GetPodGroupSchedulingCycle returns the state itself.
func (s *GroupCycleState) GetPodGroupSchedulingCycle() fwk.PodGroupCycleState { return s }

// Again returns an empty state for another decision about the group in the same attempt.
func (s *GroupCycleState) Again() *GroupCycleState {
	again := &GroupCycleState{}
	again.callWatch = s.callWatch
	return again
}

// GroupSlices are the parts in which the loop works on a large group.
type GroupSlices interface {
	// Over reports whether the loop has other work to take now.
	Over() bool
	// TakeOthers takes it. The given pods of the group, each with its node, are decided, and what
	// plugins have reserved for them stays reserved. If count is set, they count meanwhile for
	// all others. It updates the snapshot.
	TakeOthers(group []*PodInfo, count bool)
	// Taken reports whether it has tried other pods.
	Taken() bool
}

// SetSlices lets the loop take other work while the group is decided, and during the search for
// its victims.
func (s *GroupCycleState) SetSlices(slices GroupSlices) { s.slices = slices }

// Slices returns what SetSlices set, nil for nothing.
func (s *GroupCycleState) Slices() GroupSlices { return s.slices }

type slicesKey struct{}

// ContextWithSlices returns the context for a fwk.PodGroupSchedulingFunc that is called in a
// session of mutations: these slices, of the session, are those of the call.
func ContextWithSlices(ctx context.Context, slices GroupSlices) context.Context {
	return context.WithValue(ctx, slicesKey{}, slices)
}

// SlicesOf returns the slices that the context of a fwk.PodGroupSchedulingFunc has, nil for none.
func SlicesOf(ctx context.Context) GroupSlices {
	slices, _ := ctx.Value(slicesKey{}).(GroupSlices)
	return slices
}

// SetGroup sets the state of the group whose cycle decides the pod; nil ends that: the pod's
// binding cycle belongs to no group.
func (c *CycleState) SetGroup(group *GroupCycleState) { c.group = group }

// Group returns the state of the group whose cycle decides the pod; nil without one.
func (c *CycleState) Group() *GroupCycleState { return c.group }

// IsPodGroupSchedulingCycle reports whether the cycle of a group decides the pod.
func (c *CycleState) IsPodGroupSchedulingCycle() bool { return c.group != nil }

// GetPodGroupSchedulingCycle returns the state of the group; nil without one.
func (c *CycleState) GetPodGroupSchedulingCycle() fwk.PodGroupCycleState {
	if c.group == nil {
		return nil
	}
	return c.group
}

// GetPlacementCycleState returns the state of the group's placement; nil without one.
func (c *CycleState) GetPlacementCycleState() fwk.PlacementCycleState {
	if c.group == nil {
		return nil
	}
	return c.group
}
