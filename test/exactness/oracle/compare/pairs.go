package compare

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	upstreamframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/sandbox/log"
	"github.com/berthdev/berth/test/exactness/oracle/upstream"
	"github.com/berthdev/berth/test/replay/run"
)

// Pairs counts the pairs of a pod and a node that one plugin was asked about,
// on both sides with the same answer.
type Pairs struct {
	// Pairs is how many there were. Of them Refused were refused; Raw got
	// another score than 0, and Final had one above 0 when it was normalised.
	Pairs, Refused, Raw, Final int
}

// Add adds other's counts.
func (p *Pairs) Add(other Pairs) {
	p.Pairs += other.Pairs
	p.Refused += other.Refused
	p.Raw += other.Raw
	p.Final += other.Final
}

func (p *Pairs) count(l Look) {
	p.Pairs += len(l.Nodes)
	for _, v := range l.Nodes {
		if v.Refused {
			p.Refused++
		}
		if v.Raw != 0 {
			p.Raw++
		}
		if v.Final > 0 {
			p.Final++
		}
	}
}

// Looker is two plugins of one name, Berth's and kube-scheduler's, each with a
// cluster of its own that goes through the same history.
type Looker struct{ ours, theirs side }

// side is one of the two.
type side struct {
	name    string
	cluster interface {
		run.Scheduler
		Plugin(ctx context.Context, name string) (fwk.Plugin, error)
		Nodes() []fwk.NodeInfo
	}
	world  *run.World
	plugin fwk.Plugin
	state  func() fwk.CycleState
}

// NewLooker returns a Looker with empty clusters; what it starts ends with ctx.
// The error says that one of the two refuses the profile.
func NewLooker(ctx context.Context, plugin string, config run.Config) (*Looker, error) {
	berth, berthErr := run.NewBerth(ctx, config)
	kube, kubeErr := upstream.New(ctx, config)
	if err := errors.Join(wrap("Berth", berthErr), wrap("kube-scheduler", kubeErr)); err != nil {
		return nil, err
	}
	l := &Looker{
		ours: side{
			name: "Berth", cluster: berth, world: run.NewWorld(berth),
			state: func() fwk.CycleState { return framework.NewCycleState() },
		},
		theirs: side{
			name: "kube-scheduler", cluster: kube, world: run.NewWorld(kube),
			state: func() fwk.CycleState { return upstreamframework.NewCycleState() },
		},
	}
	return l, errors.Join(l.ours.build(ctx, plugin), l.theirs.build(ctx, plugin))
}

func (s *side) build(ctx context.Context, plugin string) (err error) {
	s.plugin, err = s.cluster.Plugin(ctx, plugin)
	return wrap(s.name, err)
}

// Do lets something happen in both clusters; or, with the pod of a Schedule,
// asks both plugins about it and every node, and counts the pairs. diff is how
// their answers differ (-kube-scheduler,+Berth); empty when they do not.
func (l *Looker) Do(ctx context.Context, op log.Op, pairs *Pairs) (diff string, err error) {
	pod, isPod := op.Object.(*v1.Pod)
	if op.Kind != log.Schedule || !isPod {
		return "", errors.Join(l.ours.do(op), l.theirs.do(op))
	}
	theirs, theirErr := l.theirs.look(ctx, pod)
	ours, ourErr := l.ours.look(ctx, pod)
	theirs.forgetIdle(l.theirs.plugin.Name(), pod)
	if err := errors.Join(theirErr, ourErr); err != nil {
		return "", err
	}
	if !theirs.equal(ours) {
		return cmp.Diff(theirs, ours, cmpopts.EquateEmpty()), nil
	}
	pairs.count(ours)
	return "", nil
}

func (s *side) do(op log.Op) error {
	_, err := s.world.Do(op)
	return wrap(s.name, err)
}

func (s *side) look(ctx context.Context, pod *v1.Pod) (Look, error) {
	if err := s.cluster.UpdateSnapshot(); err != nil {
		return Look{}, wrap(s.name, err)
	}
	l, err := look(ctx, s.plugin, s.state(), pod, s.cluster.Nodes())
	return l, wrap(s.name, err)
}

// String says what was compared.
func (p *Pairs) String() string {
	of := func(n int) float64 { return 100 * float64(n) / float64(max(1, p.Pairs)) }
	return fmt.Sprintf("%d pairs: %d refused (%.0f %%), %d with a raw score (%.0f %%), %d with a normalised one above 0 (%.0f %%)",
		p.Pairs, p.Refused, of(p.Refused), p.Raw, of(p.Raw), p.Final, of(p.Final))
}
