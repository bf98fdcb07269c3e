// Package defaultpreemption makes room for a pod that fits on no node, or for a group of
// pods of which too few fit, by evicting pods of lower priority. The scheduler's Preemptor selects and evicts the victims; the
// plugin calls it, and keeps the pod out of the active queue until the preemption has
// finished.
package defaultpreemption

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// Name is the name of the plugin in profiles.
const Name = "DefaultPreemption"

// Plugin preempts through the Preemptor of its handle.
type Plugin struct {
	handle    fwk.Handle
	preemptor framework.Preemptor
	args      configv1.DefaultPreemptionArgs
}

var (
	_ fwk.PreEnqueuePlugin         = (*Plugin)(nil)
	_ fwk.PostFilterPlugin         = (*Plugin)(nil)
	_ fwk.PodGroupPostFilterPlugin = (*Plugin)(nil)
	_ fwk.EnqueueExtensions        = (*Plugin)(nil)
)

// New builds the plugin from defaulted *configv1.DefaultPreemptionArgs. It returns an
// error that lists the invalid fields.
func New(_ context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	typed, ok := args.(*configv1.DefaultPreemptionArgs)
	if !ok {
		return nil, fmt.Errorf("args: is a %T, want a %T", args, typed)
	}
	if errs := Validate(typed, nil); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	p := &Plugin{handle: handle, args: *typed}
	if preemptorHandle, ok := handle.(framework.PreemptorHandle); ok {
		p.preemptor = preemptorHandle.Preemptor()
	}
	return p, nil
}

// Name returns the name of the plugin.
func (*Plugin) Name() string { return Name }

// PreEnqueue gates a pod while its victims are being evicted. An attempt would still
// find the victims on the node, and would select victims again.
func (p *Plugin) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	if p.preemptor == nil || !p.preemptor.InProgress(pod.UID) {
		return nil
	}
	return preemptionInProgressStatus()
}

func preemptionInProgressStatus() *fwk.Status {
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "waiting for the preemption for this pod to be finished")
}

// EventsToRegister registers deletions of assigned pods, so that the queue reconsiders
// a pod that PreEnqueue gates once a victim is gone.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{
		Event:          fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete},
		QueueingHintFn: p.isSchedulableAfterPodDeleted,
	}}, nil
}

// isSchedulableAfterPodDeleted requeues the pod when a pod of lower priority is deleted
// from the node that the pod is nominated for. Upstream leaves this to the plugins that
// rejected the pod. Of each node only the first plugin that rejected it is recorded,
// and that plugin's hint may ignore the victim that is deleted last.
func (p *Plugin) isSchedulableAfterPodDeleted(_ klog.Logger, pod *v1.Pod, oldObj, _ any) (fwk.QueueingHint, error) {
	deleted, ok := oldObj.(*v1.Pod)
	if !ok {
		return fwk.Queue, fmt.Errorf("the event of a deletion has a %T, want a pod", oldObj)
	}
	if corev1.PodPriority(deleted) >= corev1.PodPriority(pod) {
		return fwk.QueueSkip, nil
	}
	for _, nominated := range p.handle.NominatedPodsForNode(deleted.Spec.NodeName) {
		if nominated.GetPod().UID == pod.UID {
			return fwk.Queue, nil
		}
	}
	return fwk.QueueSkip, nil
}

// PostFilter finds victims, starts to evict them and nominates the pod for their node.
// The messages are those of kube-scheduler, since the pod's condition shows them.
func (p *Plugin) PostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if p.preemptor == nil {
		return nil, fwk.AsStatus(errors.New("preemption: the handle has no Preemptor"))
	}
	if p.preemptor.InProgress(pod.UID) {
		return nil, fwk.NewStatus(fwk.Unschedulable, "preemption: "+preemptionInProgressStatus().Message())
	}
	plan, err := p.preemptor.Plan(ctx, framework.PreemptionRequest{
		Handle: p.handle, State: state, Pod: pod, NodeToStatus: statuses,
		MinPercentage: *p.args.MinCandidateNodesPercentage, MinAbsolute: *p.args.MinCandidateNodesAbsolute,
	})
	var fitErr *framework.FitError
	var ineligible *framework.IneligibleError
	switch {
	case errors.As(err, &fitErr):
		// An earlier nomination no longer helps.
		return resultWithNominatedNode(""), fwk.NewStatus(fwk.Unschedulable, "preemption: "+err.Error())
	case errors.As(err, &ineligible):
		return nil, fwk.NewStatus(fwk.Unschedulable, "preemption: "+err.Error())
	case err != nil:
		return nil, fwk.AsStatus(fmt.Errorf("preemption: %w", err))
	}
	plan.Plugin = Name
	p.preemptor.Execute(ctx, p.handle, plan)
	return resultWithNominatedNode(plan.Node), fwk.NewStatus(fwk.Success, fmt.Sprintf(
		"preemption: found a potential placement for pod on node %v, preempting %d victims", plan.Node, len(plan.Victims)))
}

// PodGroupPostFilter finds victims anywhere in the cluster for a group of which too few pods
// fit, starts to evict them and nominates the group's pods. The messages are those of
// kube-scheduler.
func (p *Plugin) PodGroupPostFilter(ctx context.Context, state fwk.PodGroupCycleState, group fwk.PodGroupInfo, schedule fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	const prefix = "pod group preemption: "
	if p.preemptor == nil {
		return nil, fwk.AsStatus(errors.New(prefix + "the handle has no Preemptor"))
	}
	plan, status := p.preemptor.PlanGroup(ctx, framework.GroupPreemptionRequest{Handle: p.handle, State: state, Group: group, Schedule: schedule})
	if !status.IsSuccess() {
		return nil, fwk.NewStatus(status.Code(), prefix+status.Message())
	}
	result := &fwk.PodGroupPostFilterResult{NominatingInfos: plan.Nominations}
	if plan.PreemptionPlan == nil {
		return result, fwk.NewStatus(fwk.Success, prefix+"ongoing preemption on nominated nodes")
	}
	plan.Plugin = Name
	p.preemptor.Execute(ctx, p.handle, plan.PreemptionPlan)
	return result, fwk.NewStatus(fwk.Success, fmt.Sprintf(prefix+"found a placement for podgroup, preempting %d victims", len(plan.Victims)))
}

func resultWithNominatedNode(node string) *fwk.PostFilterResult {
	return &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{NominatedNodeName: node, NominatingMode: fwk.ModeOverride}}
}

// Default sets minCandidateNodesPercentage to 10 and minCandidateNodesAbsolute to 100
// where they are unset.
// Source: k8s.io/kubernetes/pkg/scheduler/apis/config/v1.
func Default(args *configv1.DefaultPreemptionArgs) {
	percentage, absolute := int32(10), int32(100)
	if args.MinCandidateNodesPercentage == nil {
		args.MinCandidateNodesPercentage = &percentage
	}
	if args.MinCandidateNodesAbsolute == nil {
		args.MinCandidateNodesAbsolute = &absolute
	}
}

// Validate returns the invalid fields of defaulted args.
func Validate(args *configv1.DefaultPreemptionArgs, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	percentagePath, absolutePath := path.Child("minCandidateNodesPercentage"), path.Child("minCandidateNodesAbsolute")
	if args.MinCandidateNodesPercentage == nil {
		errs = append(errs, field.Required(percentagePath, "must be a percentage of the nodes"))
	} else if p := *args.MinCandidateNodesPercentage; p < 0 || p > 100 {
		errs = append(errs, field.Invalid(percentagePath, p, "must be between 0 and 100"))
	}
	if args.MinCandidateNodesAbsolute == nil {
		errs = append(errs, field.Required(absolutePath, "must be a number of nodes"))
	} else if a := *args.MinCandidateNodesAbsolute; a < 0 {
		errs = append(errs, field.Invalid(absolutePath, a, "must be greater than or equal to 0"))
	}
	if len(errs) == 0 && *args.MinCandidateNodesPercentage == 0 && *args.MinCandidateNodesAbsolute == 0 {
		errs = append(errs, field.Invalid(percentagePath, 0, "must be greater than 0 if minCandidateNodesAbsolute is 0"))
	}
	return errs
}
