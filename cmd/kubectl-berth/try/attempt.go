package try

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/cmd/kubectl-berth/state"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/sandbox"
)

// topScores is how many of the best nodes an answer has the scores of.
const topScores = 5

// leastSample is the fewest nodes that fit after which a walk may stop.
const minSampledNodes = 100

// attempt lets the scheduler look for a node for one pod after the other.
func (o *options) tryPods(ctx context.Context, p *state.Profile, s *subject, live *state.State) (*Result, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	scheduler, err := sandbox.New(ctx, sandbox.Options{Blueprint: p.Blueprint, Registry: plugins.InTree(), Preempt: true})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Title, err)
	}
	waiting, err := live.Fill(scheduler, p)
	if err != nil {
		return nil, err
	}
	if waiting > 0 {
		o.note("%s for profile %s already, which this answer does not count: those that come first may take the room", pendingText(waiting), p.Name)
	}
	answer := &Result{Subject: s.title, Profile: p.Name, Title: p.Title, Nodes: len(live.Nodes)}
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
		o.note("a walk over the nodes stops once enough of them fit, and where it begins is not known from outside: it may find others")
	}
	return answer, nil
}

func pendingText(n int) string {
	if n == 1 {
		return "1 pod waits"
	}
	return show.Count(n, "pod") + " wait"
}

// try lets the scheduler look for a node for a pod, and counts it in there.
func tryPod(ctx context.Context, scheduler *sandbox.Scheduler, p *state.Profile, pod *v1.Pod) (Pod, error) {
	one := Pod{Pod: pod.Namespace + "/" + pod.Name}
	if p.HeldMessage != "" {
		one.Message = p.HeldMessage
		return one, nil
	}
	if plugin, status := scheduler.RunPreEnqueuePlugins(ctx, pod); plugin != "" {
		one.Message = status.Message()
		one.Rejections = []decision.Rejection{{Plugin: plugin, Reason: status.Message()}}
		return one, nil
	}
	outcome := scheduler.Attempt(ctx, pod)
	if err := ctx.Err(); err != nil {
		return one, err
	}
	if outcome.Err != nil {
		one.setRejection(outcome)
		return one, removeVictims(scheduler, outcome)
	}
	one.setPlacement(outcome.Placement)
	if err := scheduler.Assume(pod, one.Node); err != nil {
		return one, err
	}
	return one, scheduler.Reserve(ctx, pod, one.Node)
}

// makeRoom lets those leave who would be told to: their room is the pod's, and
// nobody after it can have it.
func removeVictims(scheduler *sandbox.Scheduler, outcome sandbox.Outcome) error {
	if outcome.Plan == nil {
		return nil
	}
	for _, victim := range outcome.Plan.Victims {
		if err := scheduler.RemovePod(victim); err != nil {
			return err
		}
	}
	return nil
}

// placed notes where the pod goes, and where it might go as well.
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

// refused notes why the pod goes nowhere.
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
