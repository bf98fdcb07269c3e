package try

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/cmd/kubectl-berth/state"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/sandbox"
)

// topScores is the number of best nodes whose scores are in a result.
const topScores = 5

// minSampledNodes is the number of feasible nodes after which the scheduler may stop
// evaluating nodes.
const minSampledNodes = 100

// tryPods runs a scheduling cycle for one pod after the other.
func (o *options) tryPods(ctx context.Context, p *state.Profile, s *subject, live *state.State) (*Result, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	scheduler, err := sandbox.New(ctx, sandbox.Options{Blueprint: p.Blueprint, Registry: plugins.InTree(), Unsupported: plugins.Unsupported, Preempt: true})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Title, err)
	}
	key, grouped := scheduler.GroupOf(s.pod)
	var members []*v1.Pod
	if grouped {
		members = o.takeMembers(p, s, key, live)
	}
	waiting, err := live.Fill(scheduler, p)
	if err != nil {
		return nil, err
	}
	if waiting > 0 {
		o.note("%s of profile %s already pending and not counted: pods that are scheduled first may take the resources", show.Count(waiting, "pod"), p.Name)
	}
	answer := &Result{Subject: s.title, Profile: p.Name, Title: p.Title, Nodes: len(live.Nodes)}
	if grouped {
		answer.Group, answer.Pods, err = o.tryGroup(ctx, scheduler, p, s, key, members)
		return answer, err
	}
	for _, pod := range s.pods() {
		one, err := tryPod(ctx, scheduler, p, pod)
		if err != nil {
			return nil, err
		}
		answer.Pods = append(answer.Pods, one)
		if one.Feasible >= minSampledNodes && one.Evaluated < answer.Nodes {
			answer.sampled = true
		}
	}
	if answer.sampled {
		o.note("the scheduler stops once enough nodes are feasible, and the node at which it starts is not visible from outside: it may evaluate other nodes")
	}
	return answer, nil
}

// tryPod runs a scheduling cycle for a pod and adds the pod to the node.
func tryPod(ctx context.Context, scheduler *sandbox.Scheduler, p *state.Profile, pod *v1.Pod) (Pod, error) {
	one := Pod{Pod: pod.Namespace + "/" + pod.Name}
	if p.HeldMessage != "" {
		one.Message = p.HeldMessage
		return one, nil
	}
	if plugin, status := scheduler.RunPreEnqueuePlugins(ctx, pod); plugin != "" {
		one.Message = status.Message()
		one.Rejections = []v1alpha1.Rejection{{Plugin: plugin, Reason: status.Message()}}
		return one, nil
	}
	outcome := scheduler.Attempt(ctx, pod)
	if err := ctx.Err(); err != nil {
		return one, err
	}
	if outcome.Err != nil {
		one.setRejection(outcome)
		var unfit *framework.FitError
		if errors.As(outcome.Err, &unfit) {
			one.DeviceRequests = cycle.DeviceRequests(ctx, scheduler.LastRequest(), unfit)
		}
		if outcome.Plan != nil {
			for _, victim := range outcome.Plan.Victims {
				// Its resources are for the preemptor, and not for later pods.
				scheduler.RemovePod(victim)
			}
		}
		return one, nil
	}
	one.setPlacement(outcome.Placement)
	if err := scheduler.Assume(pod, one.Node); err != nil {
		return one, err
	}
	if err := scheduler.Reserve(ctx, pod, one.Node); err != nil {
		return one, err
	}
	one.Devices = scheduler.GivenDevices(pod)
	return one, nil
}

// setPlacement sets the node, and the other nodes with the same score.
func (p *Pod) setPlacement(placement *cycle.Placement) {
	p.Node, p.Evaluated, p.Feasible = placement.Node, placement.Evaluated, placement.Feasible
	p.Top = placement.Top(topScores)
	if len(p.Top) == 0 {
		return
	}
	var equal []string
	for i := range placement.Scored() {
		if score := placement.Score(i); score.Score == p.Top[0].Score {
			equal = append(equal, score.Node)
		}
	}
	if len(equal) > 1 {
		slices.Sort(equal)
		p.OneOf = equal
	}
}

// setRejection sets why no node is feasible.
func (p *Pod) setRejection(outcome sandbox.Outcome) {
	p.Message = outcome.Err.Error()
	var unfit *framework.FitError
	if errors.As(outcome.Err, &unfit) {
		p.Rejections, _ = cycle.Rejections(unfit, func(_, reason string) string { return reason })
	}
	if plan := outcome.Plan; plan != nil {
		room := &Preemption{Node: plan.Node, Violations: plan.Violations}
		for _, victim := range plan.Victims {
			room.Victims = append(room.Victims, victim.Namespace+"/"+victim.Name)
		}
		p.Preemption = room
	}
}
