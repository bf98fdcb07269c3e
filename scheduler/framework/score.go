package framework

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// RunPreScorePlugins calls PreScore of every plugin. A plugin that returns Skip
// does not score in this attempt.
func (f *Framework) RunPreScorePlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (status *fwk.Status) {
	ctx, point := f.beginPoint(ctx, state, "PreScore")
	defer point.end(&status)
	skipped, status := f.runPreScoreChain(ctx, state, pod, nodes, f.preScore)
	state.SetSkipScorePlugins(skipped)
	return status
}

// runPreScoreChain is RunPreScorePlugins for some of the plugins. It returns
// those that returned Skip.
func (f *Framework) runPreScoreChain(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo, chain []fwk.PreScorePlugin) (skipped sets.Set[string], status *fwk.Status) {
	skipped = sets.New[string]()
	running := ""
	defer f.recoverPanic(pod, state, &running, "PreScore", &status)
	for _, plugin := range chain {
		running = plugin.Name()
		call := f.beginCall(state, running, "PreScore")
		s := plugin.PreScore(ctx, state, pod, nodes)
		if abandoned := call.end(s); abandoned != nil {
			return skipped, abandoned
		}
		if s.IsSkip() {
			skipped.Insert(running)
			continue
		}
		f.EvaluationCounter(running, "PreScore").Inc()
		if !s.IsSuccess() {
			return skipped, fwk.AsStatus(fmt.Errorf("running PreScore plugin %q: %w", running, s.AsError()))
		}
	}
	return skipped, nil
}

// Scores are weighted scores: one row per plugin, one column per node in the
// order of the nodes given.
type Scores struct {
	Plugins []string
	// Raw are the plugins' scores before normalization, Weighted after
	// normalization and times the weight.
	Raw, Weighted []fwk.NodeScoreList
	// Total is the sum of Weighted by node.
	Total []int64
}

// ScoreNodes calls Score of every plugin for every node, and normalizes and
// weights the results.
func (f *Framework) ScoreNodes(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (scores *Scores, status *fwk.Status) {
	ctx, point := f.beginPoint(ctx, state, "Score")
	defer point.end(&status)
	scores = &Scores{Total: make([]int64, len(nodes))}
	skipped := state.GetSkipScorePlugins()
	for _, plugin := range f.score {
		if skipped.Has(plugin.Plugin) {
			continue
		}
		raw, s := f.scoreWithPlugin(ctx, plugin, state, pod, nodes)
		if !s.IsSuccess() {
			return nil, s
		}
		weighted := append(make(fwk.NodeScoreList, 0, len(raw)), raw...)
		if s := f.normalizeScores(ctx, plugin, state, pod, weighted); !s.IsSuccess() {
			return nil, s
		}
		for i := range weighted {
			weighted[i].Score *= plugin.Weight
			scores.Total[i] += weighted[i].Score
		}
		scores.Plugins = append(scores.Plugins, plugin.Plugin)
		scores.Raw = append(scores.Raw, raw)
		scores.Weighted = append(scores.Weighted, weighted)
	}
	return scores, nil
}

func (f *Framework) scoreWithPlugin(ctx context.Context, s WeightedScore, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (list fwk.NodeScoreList, status *fwk.Status) {
	defer f.recoverPanic(pod, state, &s.Plugin, "Score", &status)
	list = make(fwk.NodeScoreList, len(nodes))
	f.EvaluationCounter(s.Plugin, "Score").Add(float64(len(nodes)))
	for i, node := range nodes {
		call := f.beginCall(state, s.Plugin, "Score")
		score, st := s.Score(ctx, state, pod, node)
		if abandoned := call.end(st); abandoned != nil {
			return nil, abandoned
		}
		if !st.IsSuccess() {
			return nil, fwk.AsStatus(fmt.Errorf("running Score plugins: plugin %q failed with: %w", s.Plugin, st.AsError()))
		}
		list[i] = fwk.NodeScore{Name: node.Node().Name, Score: score}
	}
	return list, nil
}

func (f *Framework) normalizeScores(ctx context.Context, s WeightedScore, state fwk.CycleState, pod *v1.Pod, list fwk.NodeScoreList) (status *fwk.Status) {
	defer f.recoverPanic(pod, state, &s.Plugin, "NormalizeScore", &status)
	if extensions := s.ScoreExtensions(); extensions != nil {
		call := f.beginCall(state, s.Plugin, "NormalizeScore")
		st := extensions.NormalizeScore(ctx, state, pod, list)
		if abandoned := call.end(st); abandoned != nil {
			return abandoned
		}
		if !st.IsSuccess() {
			return fwk.AsStatus(fmt.Errorf("running Normalize on Score plugins: plugin %q failed with: %w", s.Plugin, st.AsError()))
		}
	}
	for _, node := range list {
		if node.Score < fwk.MinScore || node.Score > fwk.MaxScore {
			return fwk.AsStatus(fmt.Errorf("applying score defaultWeights on Score plugins: plugin %q returns an invalid score %v, it should in the range of [%v, %v] after normalizing",
				s.Plugin, node.Score, fwk.MinScore, fwk.MaxScore))
		}
	}
	return nil
}

// RunScorePlugins is ScoreNodes with the contract's result type, for plugins
// that run other plugins.
func (f *Framework) RunScorePlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) ([]fwk.NodePluginScores, *fwk.Status) {
	scores, status := f.ScoreNodes(ctx, state, pod, nodes)
	if !status.IsSuccess() {
		return nil, status
	}
	out := make([]fwk.NodePluginScores, len(nodes))
	for i, node := range nodes {
		out[i] = fwk.NodePluginScores{
			Name:       node.Node().Name,
			RawScores:  column(scores.Plugins, scores.Raw, i),
			Scores:     column(scores.Plugins, scores.Weighted, i),
			TotalScore: scores.Total[i],
		}
	}
	return out, nil
}

func column(plugins []string, rows []fwk.NodeScoreList, node int) []fwk.PluginScore {
	out := make([]fwk.PluginScore, len(plugins))
	for i, name := range plugins {
		out[i] = fwk.PluginScore{Name: name, Score: rows[i][node].Score}
	}
	return out
}
