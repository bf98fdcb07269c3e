package cycle

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/framework"
)

// Placement is where a pod goes, and how that came about. Its scores are good
// until the next attempt.
type Placement struct {
	Node string
	// Evaluated is how many nodes were asked, Feasible how many of them fit.
	Evaluated, Feasible int
	// Winner is Node's index among the nodes that were scored.
	Winner int
	// scores is nil when one node alone fitted, since nothing was scored then.
	scores scores
}

// scores are those of the nodes that fit.
type scores interface {
	Len() int
	Totals() []int64
	Score(i int) decision.NodeScore
}

// Scored is how many nodes were scored.
func (p *Placement) Scored() int {
	if p.scores == nil {
		return 0
	}
	return p.scores.Len()
}

// Score is the record of the i-th node that was scored.
func (p *Placement) Score(i int) decision.NodeScore { return p.scores.Score(i) }

// Top returns the records of the k best nodes, best first; the winner comes
// before its equals.
func (p *Placement) Top(k int) []decision.NodeScore {
	if p.scores == nil {
		return nil
	}
	return decision.TopNodes(p.scores.Totals(), p.Winner, k, p.scores.Score)
}

// plainScores are the scores that every plugin gave every node.
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

// ranking is the scores of the nodes that fit. It is used again by the next
// attempt.
type ranking struct {
	attempt *attempt
	// base is what every node has on top of its total.
	base int64
	// parts are the normalised scores of the plugins that have to, by node.
	plugins []pluginRanking
	totals  []int64
	raw     []int64
	// room is what parts' scores are written to, by the plugin's place.
	buffers [][]int64
}

// rankPart is one plugin's scores, before they are weighed: one for all nodes,
// or one a node.
type pluginRanking struct {
	*framework.ClassScore
	sameScore int64
	scores    []int64 // nil when all are the same
}

// score scores the window. It reports false when a plugin failed.
func (r *ranking) score(a *attempt) bool {
	r.attempt, r.base = a, 0
	r.plugins = r.plugins[:0]
	r.buffers = resize(r.buffers, a.framework.NumScorePlugins())
	for i := range a.class.forms.CacheableScores {
		if form := &a.class.forms.CacheableScores[i]; form.Normalizer != nil {
			r.plugins = append(r.plugins, a.rankCached(form, &r.buffers[form.Index]))
		}
	}
	for i := range a.class.forms.UncachedScores {
		form := &a.class.forms.UncachedScores[i]
		part, scoring := a.rankUncached(form, &r.buffers[form.Index])
		switch scoring {
		case framework.ScoreFailed:
			return false
		case framework.Scored:
			r.plugins = append(r.plugins, part)
		}
	}
	r.runOpaquePlugins(a)
	r.sumTotals()
	return true
}

// askOpaque asks the opaque plugins that score.
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
		room := &r.buffers[plugin.Index]
		*room = resize(*room, len(scores[i]))
		for n := range scores[i] {
			(*room)[n] = scores[i][n].Score
		}
		form := &framework.ClassScore{Plugin: plugin.Plugin, Index: plugin.Index, Weight: plugin.Weight}
		r.plugins = append(r.plugins, pluginRanking{ClassScore: form, scores: *room})
	}
}

// remember normalises what is remembered of one plugin's scores.
func (a *attempt) rankCached(form *framework.ClassScore, room *[]int64) pluginRanking {
	row := a.class.rawScores[form.Index]
	if row == nil {
		zero := [1]int64{}
		form.Normalizer.Normalize(zero[:])
		return pluginRanking{ClassScore: form, sameScore: zero[0]}
	}
	*room = resize(*room, len(a.feasible))
	scores := *room
	for i, slot := range a.feasible {
		scores[i] = row[slot]
	}
	form.Normalizer.Normalize(scores)
	return pluginRanking{ClassScore: form, scores: scores}
}

// rate asks a live form.
func (a *attempt) rankUncached(form *framework.ClassScore, room *[]int64) (pluginRanking, framework.ScoreResult) {
	*room = resize(*room, len(a.feasible))
	scoring := a.framework.RunBatchScore(a.State, form, a.feasible, *room)
	if scoring == framework.Scored && form.Normalizer != nil {
		form.Normalizer.Normalize(*room)
	}
	return pluginRanking{ClassScore: form, scores: *room}, scoring
}

// addUp makes the totals of what the walk met and of the parts.
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

// Totals are the sums by node, less what every node has.
func (r *ranking) Totals() []int64 { return r.totals }

// Score is the record of the ith node.
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
		if raw := [1]int64{}; form.Normalizer == nil && form.BatchScore.Score([]framework.Slot{slot}, raw[:]) == framework.Scored {
			record.Plugins[form.Plugin] = form.Weight * raw[0]
		}
	}
	return record
}
