package run

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/sandbox"
)

// Berth is the real cache, cycle and plugins, driven by a log.
type Berth struct {
	*sandbox.Scheduler
	explain bool
}

var _ Scheduler = &Berth{}

// OpenBerth compiles the profile and builds its plugins, which live until ctx
// ends. The error names the fields at fault.
func OpenBerth(ctx context.Context, config Config) (Scheduler, error) { return NewBerth(ctx, config) }

// NewBerth is OpenBerth, for those who want to know more of it.
func NewBerth(ctx context.Context, config Config) (*Berth, error) {
	registry, err := plugins.With(hiding(plugins.InTree(), config.Opaque), config.Foreign...)
	if err != nil {
		return nil, err
	}
	blueprint, rejection := compile.Profile(compile.Input{
		Profile: config.Profile, Configs: config.Configs, Registry: registry, Version: "replay",
	})
	if rejection != nil {
		return nil, errors.New(rejection.Message())
	}
	scheduler, err := sandbox.New(ctx, sandbox.Options{
		Blueprint: blueprint, Registry: registry, Unsupported: plugins.Unsupported, Preempt: config.Preempt, Reference: config.Plain, Recheck: config.Explain,
	})
	if err != nil {
		return nil, err
	}
	return &Berth{scheduler, config.Explain}, nil
}

// Plugin builds one of the profile's plugins for itself. Its Handle is the
// framework of the profile; what it starts ends with ctx.
func (b *Berth) Plugin(ctx context.Context, name string) (fwk.Plugin, error) {
	return plugins.InTree()[name].New(ctx, b.Blueprint().Args[name], b.Framework())
}

// SetPod is that of the sandbox, which never fails.
func (b *Berth) SetPod(before, after *v1.Pod) error {
	b.Scheduler.SetPod(before, after)
	return nil
}

// RemovePod is that of the sandbox, which never fails.
func (b *Berth) RemovePod(last *v1.Pod) error {
	b.Scheduler.RemovePod(last)
	return nil
}

// UpdateSnapshot is that of the sandbox, which never fails.
func (b *Berth) UpdateSnapshot() error {
	b.Scheduler.UpdateSnapshot()
	return nil
}

// Attempt looks for a node, the live way.
func (b *Berth) Attempt(pod *v1.Pod) *Outcome {
	found := b.Scheduler.Attempt(context.Background(), pod)
	outcome := &Outcome{Pod: pod, Err: found.Err, Nominated: found.Nominated}
	if placement := found.Placement; placement != nil {
		outcome.Node, outcome.Evaluated, outcome.Feasible = placement.Node, placement.Evaluated, placement.Feasible
		if b.explain && placement.Scored() > 0 {
			outcome.Scores = scoresOf(placement)
		}
	}
	if found.Plan != nil {
		outcome.Victims = NamesOf(found.Plan.Victims)
	}
	if b.explain && found.Candidates != nil {
		outcome.Candidates = candidatesOf(found.Candidates)
	}
	return outcome
}

func scoresOf(placement *cycle.Placement) Scores {
	scores := Scores{}
	for i := range placement.Scored() {
		score := placement.Score(i)
		scores[score.Node] = score.Plugins
	}
	return scores
}

func candidatesOf(plans []*framework.PreemptionPlan) map[string]Candidate {
	candidates := map[string]Candidate{}
	for _, plan := range plans {
		candidates[plan.Node] = Candidate{Victims: NamesOf(plan.Victims), Violations: plan.Violations}
	}
	return candidates
}

// NamesOf returns pods as namespace/name.
func NamesOf(pods []*v1.Pod) []string {
	names := make([]string, len(pods))
	for i, pod := range pods {
		names[i] = pod.Namespace + "/" + pod.Name
	}
	return names
}
