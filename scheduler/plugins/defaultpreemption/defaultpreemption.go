// Package defaultpreemption makes room for a pod that fits nowhere, by evicting
// pods of lower priority. Who has to leave is found, and told, by the house:
// the plugin asks for it, and keeps the pod out of the queue meanwhile.
package defaultpreemption

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// Name is how profiles name the plugin.
const Name = "DefaultPreemption"

// Plugin evicts through the house's Preemptor.
type Plugin struct {
	handle    fwk.Handle
	preemptor framework.Preemptor
	args      configv1.DefaultPreemptionArgs
}

var (
	_ fwk.PreEnqueuePlugin  = (*Plugin)(nil)
	_ fwk.PostFilterPlugin  = (*Plugin)(nil)
	_ fwk.EnqueueExtensions = (*Plugin)(nil)
)

// New builds the plugin from defaulted *configv1.DefaultPreemptionArgs. The
// error says what is wrong with them.
func New(_ context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	typed, ok := args.(*configv1.DefaultPreemptionArgs)
	if !ok {
		return nil, fmt.Errorf("args: is a %T, want a %T", args, typed)
	}
	if errs := Validate(typed, nil); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	p := &Plugin{handle: handle, args: *typed}
	if lender, ok := handle.(framework.PreemptorHandle); ok {
		p.preemptor = lender.Preemptor()
	}
	return p, nil
}

// Name returns Name.
func (*Plugin) Name() string { return Name }

// PreEnqueue keeps a pod out of the queue while its victims are being told to
// go: a try would find them still there, and plan for it anew.
func (p *Plugin) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	if p.preemptor == nil || !p.preemptor.InProgress(pod.UID) {
		return nil
	}
	return preemptionInProgressStatus()
}

func preemptionInProgressStatus() *fwk.Status {
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "waiting for the preemption for this pod to be finished")
}

// EventsToRegister asks for the deletion of pods on nodes, so that the queue
// looks at a pod that PreEnqueue holds when a victim has left.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{
		Event:          fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete},
		QueueingHintFn: p.isSchedulableAfterPodDeleted,
	}}, nil
}

// victimLeft wakes a pod when a lesser one leaves the node where room is
// promised to it. Upstream leaves that to the plugins that refused the pod; but
// of a node only the first that does is known, and it need not mind the victim
// that leaves last.
func (p *Plugin) isSchedulableAfterPodDeleted(_ klog.Logger, pod *v1.Pod, oldObj, _ any) (fwk.QueueingHint, error) {
	left, ok := oldObj.(*v1.Pod)
	if !ok {
		return fwk.Queue, fmt.Errorf("the event of a deletion holds a %T, want a pod", oldObj)
	}
	if fault.LastVictimUnheard || corev1.PodPriority(left) >= corev1.PodPriority(pod) {
		return fwk.QueueSkip, nil
	}
	for _, promised := range p.handle.NominatedPodsForNode(left.Spec.NodeName) {
		if promised.GetPod().UID == pod.UID {
			return fwk.Queue, nil
		}
	}
	return fwk.QueueSkip, nil
}

// PostFilter looks for pods whose leaving would let the pod in, begins to
// evict them and nominates the pod for their node. The messages are upstream's,
// since they end up in the pod's condition.
func (p *Plugin) PostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, refusals fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if p.preemptor == nil {
		return nil, fwk.AsStatus(errors.New("preemption: the handle lends no Preemptor"))
	}
	if p.preemptor.InProgress(pod.UID) {
		return nil, fwk.NewStatus(fwk.Unschedulable, "preemption: "+preemptionInProgressStatus().Message())
	}
	plan, err := p.preemptor.Plan(ctx, framework.PreemptionRequest{
		Handle: p.handle, State: state, Pod: pod, NodeToStatus: refusals,
		MinPercentage: *p.args.MinCandidateNodesPercentage, MinAbsolute: *p.args.MinCandidateNodesAbsolute,
	})
	var hopeless *framework.FitError
	var ineligible *framework.IneligibleError
	switch {
	case errors.As(err, &hopeless):
		// Room that was promised before is of no use any more.
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

func resultWithNominatedNode(node string) *fwk.PostFilterResult {
	return &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{NominatedNodeName: node, NominatingMode: fwk.ModeOverride}}
}
