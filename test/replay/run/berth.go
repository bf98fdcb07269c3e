package run

import (
	"context"
	"errors"
	"maps"
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/sandbox"
)

// Berth runs a log through the real cache, cycle and plugins.
type Berth struct {
	*sandbox.Scheduler
	explain bool
}

var _ Scheduler = &Berth{}

// OpenBerth is NewBerth as an Open.
func OpenBerth(ctx context.Context, config Config) (Scheduler, error) { return NewBerth(ctx, config) }

// NewBerth compiles the profile and builds its plugins, which are closed when ctx ends. The
// error names the invalid fields. Extenders are not called.
func NewBerth(ctx context.Context, config Config) (*Berth, error) {
	registry, err := plugins.With(withOpaque(plugins.InTree(), config.Opaque), config.OutOfTree...)
	if err != nil {
		return nil, err
	}
	blueprint, rejection := compile.Profile(compile.Input{
		Profile: config.Profile, Configs: config.Configs, Registry: registry, Version: "replay", Extenders: compile.AllExtenders,
	})
	if rejection != nil {
		return nil, errors.New(rejection.Message())
	}
	scheduler, err := sandbox.New(ctx, sandbox.Options{
		Blueprint: blueprint, Registry: registry, Unsupported: plugins.Unsupported, Preempt: config.Preempt, Reference: config.Reference, Recheck: config.Explain,
	})
	if err != nil {
		return nil, err
	}
	return &Berth{scheduler, config.Explain}, nil
}

// Plugin builds one of the profile's plugins once more. Its Handle is the framework of the
// profile; what it starts ends with ctx.
func (b *Berth) Plugin(ctx context.Context, name string) (fwk.Plugin, error) {
	return plugins.InTree()[name].New(ctx, b.Blueprint().Args[name], b.Framework())
}

// SetPod is the sandbox's, which cannot fail.
func (b *Berth) SetPod(before, after *v1.Pod) error {
	b.Scheduler.SetPod(before, after)
	return nil
}

// RemovePod is the sandbox's, which cannot fail.
func (b *Berth) RemovePod(last *v1.Pod) error {
	b.Scheduler.RemovePod(last)
	return nil
}

// UpdateSnapshot is the sandbox's, which cannot fail.
func (b *Berth) UpdateSnapshot() error {
	b.Scheduler.UpdateSnapshot()
	return nil
}

// Attempt runs one scheduling cycle.
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

// ClosestNodes returns the closest nodes of the last Attempt, which ended in unfit.
func (b *Berth) ClosestNodes(unfit *framework.FitError) []v1alpha1.ClosestNode {
	return cycle.ClosestNodes(context.Background(), b.LastRequest(), unfit, func(_, reason string) string { return reason })
}

// FewestMissing is the reference implementation of ClosestNodes: the smallest number of
// missing things on a node that refused the pod, among the nodes with the fewest permanent
// rejections.
func (b *Berth) FewestMissing(unfit *framework.FitError) (fewest int) {
	last, least := b.LastRequest(), math.MaxInt
	unfit.Diagnosis.NodeToStatus.ForEachExplicitNode(func(name string, _ *fwk.Status) {
		node := last.Snapshot.Node(name)
		missing, ok := b.Framework().AllRejections(context.Background(), last.State, last.Pod, node)
		n := 0
		for _, m := range missing {
			n += max(1, len(m.InsufficientResources))
		}
		excluded := b.PermanentRejections(name)
		if ok && n > 0 && (excluded < least || excluded == least && n < fewest) {
			least, fewest = excluded, n
		}
	})
	return fewest
}

// PermanentRejections returns how many plugins refuse a node for a reason that stays, in the
// last Attempt, whichever plugin refused it first.
func (b *Berth) PermanentRejections(node string) int {
	last := b.LastRequest()
	return b.Framework().CountPermanentRejections(last.State, last.Pod, last.Snapshot.Node(node), "")
}

// Node returns the current state of a node; nil when there is none of that name.
func (b *Berth) Node(name string) *v1.Node { return b.snapshot().Node(name).Node() }

// snapshot is the current state of the cluster.
func (b *Berth) snapshot() *cache.Snapshot {
	b.Scheduler.UpdateSnapshot()
	return b.LastRequest().Snapshot
}

// RunFilters runs the plugins for a pod and the current state of a node, without the Filter
// plugins named by except.
func (b *Berth) RunFilters(pod *v1.Pod, node string, but ...string) *fwk.Status {
	snapshot, state := b.snapshot(), framework.NewCycleState()
	_, status, _ := b.Framework().RunPreFilterPlugins(context.Background(), state, pod)
	if !status.IsSuccess() {
		return status
	}
	state.SetSkipFilterPlugins(state.GetSkipFilterPlugins().Union(sets.New(but...)))
	return b.Framework().RunFilterPluginsWithNominatedPods(context.Background(), state, pod, snapshot.Node(node))
}

// FitsWithout says whether a pod would fit on a node after some pods have left it.
func (b *Berth) FitsWithout(pod *v1.Pod, node string, leavers []*v1.Pod) bool {
	ctx, snapshot, state := context.Background(), b.snapshot(), framework.NewCycleState()
	if _, status, _ := b.Framework().RunPreFilterPlugins(ctx, state, pod); !status.IsSuccess() {
		return false
	}
	left := snapshot.Node(node).Snapshot()
	for _, leaver := range leavers {
		info, _ := framework.NewPodInfo(leaver)
		if err := left.RemovePod(klog.Background(), leaver); err != nil {
			return false
		}
		if !b.Framework().RunPreFilterExtensionRemovePod(ctx, state, pod, info, left).IsSuccess() {
			return false
		}
	}
	return b.Framework().RunFilterPluginsWithNominatedPods(ctx, state, pod, left).IsSuccess()
}

// withOpaque returns the registry with the named plugins made opaque.
func withOpaque(registry framework.Registry, names []string) framework.Registry {
	hiding := maps.Clone(registry)
	for _, name := range names {
		registration := registry[name]
		registration.New = func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
			plugin, err := registry[name].New(ctx, args, handle)
			return opaque{plugin}, err
		}
		hiding[name] = registration
	}
	return hiding
}

// opaque is a plugin without the optional interfaces of Berth. It runs at the points of its
// registration, at which the plugin has the methods.
type opaque struct{ fwk.Plugin }

func (o opaque) PreFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	return o.Plugin.(fwk.PreFilterPlugin).PreFilter(ctx, state, pod, nodes)
}

func (o opaque) PreFilterExtensions() fwk.PreFilterExtensions {
	return o.Plugin.(fwk.PreFilterPlugin).PreFilterExtensions()
}

func (o opaque) Filter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	return o.Plugin.(fwk.FilterPlugin).Filter(ctx, state, pod, node)
}

func (o opaque) PreScore(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	return o.Plugin.(fwk.PreScorePlugin).PreScore(ctx, state, pod, nodes)
}

func (o opaque) Score(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	return o.Plugin.(fwk.ScorePlugin).Score(ctx, state, pod, node)
}

func (o opaque) ScoreExtensions() fwk.ScoreExtensions {
	return o.Plugin.(fwk.ScorePlugin).ScoreExtensions()
}
