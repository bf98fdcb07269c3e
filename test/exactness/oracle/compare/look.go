package compare

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// Look is what one plugin says about a pod and every node.
type Look struct {
	// PreFilter and PreScore are the answers about the pod alone.
	PreFilter, PreScore Answer
	// Names are the nodes that PreFilter narrows the search down to, sorted.
	Names []string
	Nodes []Verdict
}

// Verdict is what one plugin says about a pod and one node.
type Verdict struct {
	Node string
	// Refused says that the plugin keeps the pod from the node: by Filter, or
	// for all nodes alike or all but some by PreFilter.
	Refused bool
	Filter  Answer
	// Raw is the score as it is given, Final as it is normalised with those of
	// the other nodes that were not refused.
	Raw, Final int64
	Score      Answer
}

// Answer is a status that can be compared. Reasons are sorted, since those
// about extended resources stand in the order of a map upstream.
type Answer struct {
	Code    fwk.Code
	Reasons []string
}

func answer(status *fwk.Status) Answer {
	if status == nil {
		return Answer{}
	}
	reasons := slices.Clone(status.Reasons())
	slices.Sort(reasons)
	return Answer{status.Code(), reasons}
}

func (a Answer) equal(b Answer) bool { return a.Code == b.Code && slices.Equal(a.Reasons, b.Reasons) }

// equal says whether cmp.Diff would find nothing, a hundred times as fast.
func (l Look) equal(other Look) bool {
	return l.PreFilter.equal(other.PreFilter) && l.PreScore.equal(other.PreScore) && slices.Equal(l.Names, other.Names) &&
		slices.EqualFunc(l.Nodes, other.Nodes, func(a, b Verdict) bool {
			return a.Node == b.Node && a.Refused == b.Refused && a.Raw == b.Raw && a.Final == b.Final &&
				a.Filter.equal(b.Filter) && a.Score.equal(b.Score)
		})
}

// forgetIdle makes a PreScore that led to nothing but idle scores a skip.
func (l *Look) forgetIdle(plugin string, pod *v1.Pod) {
	given := func(v Verdict) bool { return !idle(pod)(plugin, v.Raw) || v.Score.Code != fwk.Success }
	if len(l.Nodes) > 0 && l.PreScore.Code == fwk.Success && !slices.ContainsFunc(l.Nodes, given) {
		l.PreScore = Answer{Code: fwk.Skip}
	}
}

// look asks a plugin about a pod and nodes, in the order in which an attempt
// does. Nodes that it refuses are not scored.
func look(ctx context.Context, plugin fwk.Plugin, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (Look, error) {
	var l Look
	names, skip := l.preFilter(ctx, plugin, state, pod, nodes)
	filter, filters := plugin.(fwk.FilterPlugin)
	var left []fwk.NodeInfo
	for _, node := range nodes {
		v := Verdict{Node: node.Node().Name, Refused: l.PreFilter.Code != fwk.Success && !skip}
		if names != nil && !names.Has(v.Node) {
			v.Refused = true
		}
		if filters && !skip && !v.Refused {
			v.Filter = answer(filter.Filter(ctx, state, pod, node))
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

func (l *Look) preFilter(ctx context.Context, plugin fwk.Plugin, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (names sets.Set[string], skip bool) {
	preFilter, ok := plugin.(fwk.PreFilterPlugin)
	if !ok {
		return nil, false
	}
	result, status := preFilter.PreFilter(ctx, state, pod, nodes)
	l.PreFilter = answer(status)
	if !result.AllNodes() {
		names = result.NodeNames
		l.Names = sets.List(names)
	}
	return names, status.IsSkip()
}

func (l *Look) score(ctx context.Context, plugin fwk.Plugin, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) error {
	score, scores := plugin.(fwk.ScorePlugin)
	if !scores || len(nodes) == 0 {
		return nil
	}
	if preScore, ok := plugin.(fwk.PreScorePlugin); ok {
		status := preScore.PreScore(ctx, state, pod, nodes)
		if l.PreScore = answer(status); !status.IsSuccess() {
			return nil // a Skip, or what both must fail with
		}
	}
	list := make(fwk.NodeScoreList, len(nodes))
	for i, node := range nodes {
		raw, status := score.Score(ctx, state, pod, node)
		list[i] = fwk.NodeScore{Name: node.Node().Name, Score: raw}
		v := l.verdict(list[i].Name)
		v.Raw, v.Score = raw, answer(status)
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

func (l *Look) verdict(node string) *Verdict {
	i := slices.IndexFunc(l.Nodes, func(v Verdict) bool { return v.Node == node })
	return &l.Nodes[i]
}
