package cycle

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/framework/counts"
	"github.com/berthdev/berth/scheduler/framework/podclass"
)

// Placement is the chosen node and how it was chosen. Its scores are valid
// until the next attempt.
type Placement struct {
	Node string
	// Evaluated is the number of nodes that were evaluated, Feasible the number
	// of them that fit.
	Evaluated, Feasible int
	// Winner is Node's index among the scored nodes.
	Winner int
	// scores is nil if only one node was feasible, which is then not scored.
	scores scores
}

// scores are the scores of the feasible nodes.
type scores interface {
	Len() int
	Totals() []int64
	Score(i int) decision.NodeScore
}

// Scored is the number of scored nodes.
func (p *Placement) Scored() int {
	if p.scores == nil {
		return 0
	}
	return p.scores.Len()
}

// Score returns the record of the i-th scored node.
func (p *Placement) Score(i int) decision.NodeScore { return p.scores.Score(i) }

// Top returns the records of the k best nodes, best first. Of nodes with equal
// scores the winner comes first.
func (p *Placement) Top(k int) []decision.NodeScore {
	if p.scores == nil {
		return nil
	}
	return decision.TopNodes(p.scores.Totals(), p.Winner, k, p.scores.Score)
}

// referenceScores are the scores computed by the reference.
type referenceScores struct {
	nodes  []fwk.NodeInfo
	scores *framework.Scores
}

func (p *referenceScores) Len() int { return len(p.nodes) }

func (p *referenceScores) Totals() []int64 { return p.scores.Total }

func (p *referenceScores) Score(i int) decision.NodeScore {
	score := decision.NodeScore{
		Node: p.nodes[i].Node().Name, Score: p.scores.Total[i],
		Plugins: make(map[string]int64, len(p.scores.Plugins)),
	}
	for row, plugin := range p.scores.Plugins {
		score.Plugins[plugin] = p.scores.Weighted[row][i].Score
	}
	return score
}

// ranking is the scores of the feasible nodes of a cached attempt. Later
// attempts reuse it.
type ranking struct {
	attempt *attempt
	// base is added to the total of every node.
	base int64
	// plugins are the normalized scores that are not part of the cached
	// verdicts. totals are the sums by node without base.
	plugins []pluginRanking
	totals  []int64
	raw     []int64
	// buffers hold the scores of plugins, by index in the Score chain.
	buffers [][]int64
}

// pluginRanking is one plugin's unweighted scores: the same for all nodes, or
// one per node.
type pluginRanking struct {
	*podclass.ClassScore
	sameScore int64
	scores    []int64 // nil if all nodes have sameScore
}

// score scores the feasible nodes. It returns false if a plugin failed.
func (r *ranking) score(a *attempt) bool {
	r.attempt, r.base = a, 0
	r.plugins = r.plugins[:0]
	r.buffers = resize(r.buffers, len(a.framework.ScoreChain()))
	for i := range a.class.forms.CacheableScores {
		if form := &a.class.forms.CacheableScores[i]; form.Normalizer != nil {
			r.plugins = append(r.plugins, a.rankCached(form, &r.buffers[form.Index]))
		}
	}
	for i := range a.class.forms.UncachedScores {
		form := &a.class.forms.UncachedScores[i]
		part, scoring := a.rankUncached(form, &r.buffers[form.Index])
		switch scoring {
		case podclass.ScoreFailed:
			return false
		case podclass.Scored:
			r.plugins = append(r.plugins, part)
		}
	}
	r.runOpaquePlugins(a)
	r.sumTotals()
	return true
}

// runOpaquePlugins adds the scores of the opaque plugins.
func (r *ranking) runOpaquePlugins(a *attempt) {
	if !a.framework.IsOpaque(a.Pod, "") {
		return
	}
	plugins, scores, status := a.framework.RunOpaqueScorePlugins(a.ctx, a.State, a.Pod, a.feasibleNodes())
	if !status.IsSuccess() {
		a.failure = status
		return
	}
	for i, plugin := range plugins {
		buffer := &r.buffers[plugin.Index]
		*buffer = resize(*buffer, len(scores[i]))
		for n := range scores[i] {
			(*buffer)[n] = scores[i][n].Score
		}
		form := &podclass.ClassScore{Plugin: plugin.Plugin, Index: plugin.Index, Weight: plugin.Weight}
		r.plugins = append(r.plugins, pluginRanking{ClassScore: form, scores: *buffer})
	}
}

// rankCached normalizes the cached raw scores of one plugin.
func (a *attempt) rankCached(form *podclass.ClassScore, buffer *[]int64) pluginRanking {
	row := a.class.rawScores[form.Index]
	if row == nil {
		zero := [1]int64{}
		form.Normalizer.Normalize(zero[:])
		return pluginRanking{ClassScore: form, sameScore: zero[0]}
	}
	*buffer = resize(*buffer, len(a.feasible))
	scores := *buffer
	for i, slot := range a.feasible {
		scores[i] = row[slot]
	}
	form.Normalizer.Normalize(scores)
	return pluginRanking{ClassScore: form, scores: scores}
}

// rankUncached scores the feasible nodes by an uncached plugin.
func (a *attempt) rankUncached(form *podclass.ClassScore, buffer *[]int64) (pluginRanking, podclass.ScoreResult) {
	if form.Normalizer == nil && form.Idle() {
		return pluginRanking{ClassScore: form}, podclass.Scored
	}
	*buffer = resize(*buffer, len(a.feasible))
	scoring := form.Run(a.framework, a.State, a.feasible, *buffer)
	if scoring == podclass.Scored && form.Normalizer != nil {
		form.Normalizer.Normalize(*buffer)
	}
	return pluginRanking{ClassScore: form, scores: *buffer}, scoring
}

// sumTotals adds the weighted scores of all plugins to base and totals.
func (r *ranking) sumTotals() {
	for i := range r.plugins {
		if r.plugins[i].scores == nil {
			r.base += r.plugins[i].Weight * r.plugins[i].sameScore
		}
	}
	for p := range r.plugins {
		part := &r.plugins[p]
		for i, score := range part.scores {
			r.totals[i] += part.Weight * score
		}
	}
}

// Len is the number of nodes.
func (r *ranking) Len() int { return len(r.totals) }

// Totals are the scores by node without base, which all nodes have.
func (r *ranking) Totals() []int64 { return r.totals }

// Score returns the record of the i-th node.
func (r *ranking) Score(i int) decision.NodeScore {
	a := r.attempt
	slot := a.feasible[i]
	record := decision.NodeScore{
		Node: a.snapshot.Columns().Nodes[slot].Node().Name, Score: r.base + r.totals[i], Plugins: map[string]int64{},
	}
	for p := range r.plugins {
		if part := &r.plugins[p]; part.scores == nil {
			record.Plugins[part.Plugin] = part.Weight * part.sameScore
		} else {
			record.Plugins[part.Plugin] = part.Weight * part.scores[i]
		}
	}
	for f := range a.class.forms.CacheableScores {
		form := &a.class.forms.CacheableScores[f]
		if raw := [1]int64{}; form.Normalizer == nil && form.BatchScore.Score([]counts.Slot{slot}, raw[:]) == podclass.Scored {
			record.Plugins[form.Plugin] = form.Weight * raw[0]
		}
	}
	return record
}
