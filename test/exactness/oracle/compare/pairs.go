package compare

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	upstreamframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/sandbox/log"
	"github.com/berthdev/berth/test/exactness/oracle/upstream"
	"github.com/berthdev/berth/test/replay/run"
)

// Pairs counts the pairs of a pod and a node for which both plugins returned the same.
type Pairs struct {
	// Of Pairs, Refused were refused; Raw have a score other than 0, and Final a normalised
	// score above 0.
	Pairs, Refused, Raw, Final int
}

// Add adds other's counts.
func (p *Pairs) Add(other Pairs) {
	p.Pairs += other.Pairs
	p.Refused += other.Refused
	p.Raw += other.Raw
	p.Final += other.Final
}

func (p *Pairs) count(l Evaluation) {
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

// PluginPair is two plugins of one name, Berth's and kube-scheduler's, each with a cluster of
// its own and the same history.
type PluginPair struct{ ours, theirs side }

// side is one of the two.
type side struct {
	name    string
	cluster interface {
		run.Scheduler
		Plugin(ctx context.Context, name string) (fwk.Plugin, error)
		Nodes() []fwk.NodeInfo
	}
	replay *run.Cluster
	plugin fwk.Plugin
	state  func() fwk.CycleState
}

// NewPluginPair returns a PluginPair with empty clusters; what it starts ends with ctx. The
// error says that one of the two refuses the profile.
func NewPluginPair(ctx context.Context, plugin string, config run.Config) (*PluginPair, error) {
	berth, berthErr := run.NewBerth(ctx, config)
	kube, kubeErr := upstream.New(ctx, config)
	if err := errors.Join(withName("Berth", berthErr), withName("kube-scheduler", kubeErr)); err != nil {
		return nil, err
	}
	l := &PluginPair{
		ours: side{
			name: "Berth", cluster: berth, replay: run.NewCluster(berth),
			state: func() fwk.CycleState { return framework.NewCycleState() },
		},
		theirs: side{
			name: "kube-scheduler", cluster: kube, replay: run.NewCluster(kube),
			state: func() fwk.CycleState { return upstreamframework.NewCycleState() },
		},
	}
	return l, errors.Join(l.ours.build(ctx, plugin), l.theirs.build(ctx, plugin))
}

func (s *side) build(ctx context.Context, plugin string) (err error) {
	s.plugin, err = s.cluster.Plugin(ctx, plugin)
	return withName(s.name, err)
}

// Do applies an op to both clusters; or, with the pod of a Schedule, lets both plugins
// evaluate it on every node, and counts the pairs. diff is the difference
// (-kube-scheduler,+Berth); empty when there is none.
func (l *PluginPair) Do(ctx context.Context, op log.Op, pairs *Pairs) (diff string, err error) {
	pod, isPod := op.Object.(*v1.Pod)
	if op.Kind != log.Schedule || !isPod {
		return "", errors.Join(l.ours.do(op), l.theirs.do(op))
	}
	theirs, theirErr := l.theirs.evaluate(ctx, pod)
	ours, ourErr := l.ours.evaluate(ctx, pod)
	theirs.skipIgnored(l.theirs.plugin.Name(), pod)
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
	_, err := s.replay.Do(op)
	return withName(s.name, err)
}

func (s *side) evaluate(ctx context.Context, pod *v1.Pod) (Evaluation, error) {
	if err := s.cluster.UpdateSnapshot(); err != nil {
		return Evaluation{}, withName(s.name, err)
	}
	l, err := evaluate(ctx, s.plugin, s.state(), pod, s.cluster.Nodes())
	return l, withName(s.name, err)
}

// String has one line.
func (p *Pairs) String() string {
	of := func(n int) float64 { return 100 * float64(n) / float64(max(1, p.Pairs)) }
	return fmt.Sprintf("%d pairs: %d refused (%.0f %%), %d with a raw score (%.0f %%), %d with a normalised one above 0 (%.0f %%)",
		p.Pairs, p.Refused, of(p.Refused), p.Raw, of(p.Raw), p.Final, of(p.Final))
}

// Evaluation is what one plugin returns for a pod and every node.
type Evaluation struct {
	// PreFilter and PreScore are the statuses for the pod alone.
	PreFilter, PreScore Status
	// Names are the nodes of the PreFilterResult, sorted.
	Names []string
	Nodes []Verdict
}

// Verdict is what one plugin returns for a pod and one node.
type Verdict struct {
	Node string
	// Refused says that the plugin refuses the pod on the node: in Filter, or in PreFilter,
	// for all nodes or for all but some.
	Refused bool
	Filter  Status
	// Raw is the score, Final the score after NormalizeScore with the other nodes that were
	// not refused.
	Raw, Final int64
	Score      Status
}

// Status is a comparable fwk.Status. Reasons are sorted, since upstream has those about
// extended resources in the order of a map.
type Status struct {
	Code    fwk.Code
	Reasons []string
}

func statusOf(status *fwk.Status) Status {
	if status == nil {
		return Status{}
	}
	reasons := slices.Clone(status.Reasons())
	slices.Sort(reasons)
	return Status{status.Code(), reasons}
}

func (a Status) equal(b Status) bool { return a.Code == b.Code && slices.Equal(a.Reasons, b.Reasons) }

// equal is cmp.Diff without the difference, a hundred times as fast.
func (l Evaluation) equal(other Evaluation) bool {
	return l.PreFilter.equal(other.PreFilter) && l.PreScore.equal(other.PreScore) && slices.Equal(l.Names, other.Names) &&
		slices.EqualFunc(l.Nodes, other.Nodes, func(a, b Verdict) bool {
			return a.Node == b.Node && a.Refused == b.Refused && a.Raw == b.Raw && a.Final == b.Final &&
				a.Filter.equal(b.Filter) && a.Score.equal(b.Score)
		})
}

// skipIgnored turns a PreScore that led to ignored scores alone into a Skip.
func (l *Evaluation) skipIgnored(plugin string, pod *v1.Pod) {
	given := func(v Verdict) bool { return !ignoredScore(pod)(plugin, v.Raw) || v.Score.Code != fwk.Success }
	if len(l.Nodes) > 0 && l.PreScore.Code == fwk.Success && !slices.ContainsFunc(l.Nodes, given) {
		l.PreScore = Status{Code: fwk.Skip}
	}
}

// evaluate calls a plugin for a pod and nodes, in the order of an attempt. Nodes that it
// refuses are not scored.
func evaluate(ctx context.Context, plugin fwk.Plugin, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (Evaluation, error) {
	var l Evaluation
	names, skip := l.preFilter(ctx, plugin, state, pod, nodes)
	filter, filters := plugin.(fwk.FilterPlugin)
	var left []fwk.NodeInfo
	for _, node := range nodes {
		v := Verdict{Node: node.Node().Name, Refused: l.PreFilter.Code != fwk.Success && !skip}
		if names != nil && !names.Has(v.Node) {
			v.Refused = true
		}
		if filters && !skip && !v.Refused {
			v.Filter = statusOf(filter.Filter(ctx, state, pod, node))
			v.Refused = v.Filter.Code != fwk.Success
		}
		if v.Filter.Code == fwk.Error {
			return l, fmt.Errorf("%s on node %s: %v", plugin.Name(), v.Node, v.Filter.Reasons)
		}
		if !v.Refused {
			left = append(left, node)
		}
		l.Nodes = append(l.Nodes, v)
	}
	return l, l.score(ctx, plugin, state, pod, left)
}

func (l *Evaluation) preFilter(ctx context.Context, plugin fwk.Plugin, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (names sets.Set[string], skip bool) {
	preFilter, ok := plugin.(fwk.PreFilterPlugin)
	if !ok {
		return nil, false
	}
	result, status := preFilter.PreFilter(ctx, state, pod, nodes)
	l.PreFilter = statusOf(status)
	if !result.AllNodes() {
		names = result.NodeNames
		l.Names = sets.List(names)
	}
	return names, status.IsSkip()
}

func (l *Evaluation) score(ctx context.Context, plugin fwk.Plugin, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) error {
	score, scores := plugin.(fwk.ScorePlugin)
	if !scores || len(nodes) == 0 {
		return nil
	}
	if preScore, ok := plugin.(fwk.PreScorePlugin); ok {
		status := preScore.PreScore(ctx, state, pod, nodes)
		if l.PreScore = statusOf(status); !status.IsSuccess() {
			return nil // a Skip, or an error of both
		}
	}
	list := make(fwk.NodeScoreList, len(nodes))
	for i, node := range nodes {
		raw, status := score.Score(ctx, state, pod, node)
		list[i] = fwk.NodeScore{Name: node.Node().Name, Score: raw}
		v := l.verdict(list[i].Name)
		v.Raw, v.Score = raw, statusOf(status)
	}
	if extensions := score.ScoreExtensions(); extensions != nil {
		if status := extensions.NormalizeScore(ctx, state, pod, list); !status.IsSuccess() {
			return status.AsError()
		}
	}
	for _, final := range list {
		l.verdict(final.Name).Final = final.Score
	}
	return nil
}

func (l *Evaluation) verdict(node string) *Verdict {
	i := slices.IndexFunc(l.Nodes, func(v Verdict) bool { return v.Node == node })
	return &l.Nodes[i]
}
