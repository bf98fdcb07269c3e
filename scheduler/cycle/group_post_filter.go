package cycle

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// RunGroupPostFilter runs the PodGroupPostFilter plugins after RunGroup of the same request
// returned unfit, a *GroupUnschedulableError, whose message it completes. Where a plugin makes
// room for the group, or has begun to, it returns true: the group waits for that, and the
// nodes that its pods are nominated for are in Nominating. Another error than unfit says that
// the attempt failed.
func (c *Cycle) RunGroupPostFilter(ctx context.Context, r GroupRequest, unfit error) (waiting bool, err error) {
	var refused *GroupUnschedulableError
	if !errors.As(unfit, &refused) || !r.Framework.HasPodGroupPostFilterPlugins() {
		return false, unfit
	}
	schedule := func(ctx context.Context) (*fwk.PodGroupAssignments, *fwk.Status) {
		again := r
		again.Before, again.Decided, again.Deleted, again.GroupState, again.KeepFilterStates = nil, nil, nil, r.GroupState.Again(), true
		again.GroupState.SetSlices(framework.SlicesOf(ctx))
		again.Members = nil
		for _, m := range r.Members {
			again.Members = append(again.Members, &GroupMember{Pod: m.Pod, Info: m.Info, State: framework.NewCycleState()})
		}
		err := c.RunGroup(ctx, again)
		assignments := &fwk.PodGroupAssignments{}
		for _, m := range again.Members {
			if m.Placement != nil {
				assignments.ProposedAssignments = append(assignments.ProposedAssignments, m)
			}
		}
		if IsUnschedulable(err) {
			return assignments, fwk.NewStatus(fwk.Unschedulable, err.Error())
		}
		return assignments, fwk.AsStatus(err)
	}
	result, status := r.Framework.RunPodGroupPostFilterPlugins(ctx, r.GroupState, r.Info(), schedule)
	if status.IsError() {
		return false, status.AsError()
	}
	if message := status.Message(); message != "" {
		refused.Message += ", " + message
	}
	if !status.IsSuccess() {
		return false, unfit
	}
	for _, m := range r.Members {
		if fitErr := new(framework.FitError); errors.As(m.Err, &fitErr) {
			// The plugin that nominates the pods also knows the events that requeue them.
			fitErr.Diagnosis.UnschedulablePlugins.Insert(status.Plugin())
		}
		m.Nominating = result.NominatingInfos[types.NamespacedName{Namespace: m.Pod.Namespace, Name: m.Pod.Name}]
	}
	return true, unfit
}
