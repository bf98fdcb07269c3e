package cycle

import (
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/framework"
)

// ranking is the scores of the nodes that fit. It is used again by the next
// attempt.
type ranking struct {
	attempt *attempt
	// base is what every node has on top of its total.
	base int64
	// parts are the normalised scores of the plugins that have to, by node.
	parts  []rankPart
	totals []int64
	raw    []int64
	// room is what parts' scores are written to, by the plugin's place.
	room [][]int64
}

// rankPart is one plugin's scores, before they are weighed: one for all nodes,
// or one a node.
type rankPart struct {
	*framework.ClassScore
	same   int64
	scores []int64 // nil when all are the same
}

// score scores the window. It reports false when a plugin failed.
func (r *ranking) score(a *attempt) bool {
	r.attempt, r.base = a, 0
	r.parts = r.parts[:0]
	r.room = sized(r.room, a.framework.ScorePlugins())
	for i := range a.class.forms.LastingScores {
		if form := &a.class.forms.LastingScores[i]; form.Normal != nil {
			r.parts = append(r.parts, a.remember(form, &r.room[form.Place]))
		}
	}
	for i := range a.class.forms.Scores {
		form := &a.class.forms.Scores[i]
		part, scoring := a.rate(form, &r.room[form.Place])
		switch scoring {
		case framework.ScoringBroken:
			return false
		case framework.Scored:
			r.parts = append(r.parts, part)
		}
	}
	r.askOpaque(a)
	r.addUp()
	return true
}

// askOpaque asks the opaque plugins that score.
func (r *ranking) askOpaque(a *attempt) {
	if !a.framework.Opaque(a.Pod, "") {
		return
	}
	plugins, scores, status := a.framework.ScoreOpaque(a.ctx, a.State, a.Pod, a.infos())
	if !status.IsSuccess() {
		a.failed = status
		return
	}
	for i, plugin := range plugins {
		room := &r.room[plugin.Place]
		*room = sized(*room, len(scores[i]))
		for n := range scores[i] {
			(*room)[n] = scores[i][n].Score
		}
		form := &framework.ClassScore{Plugin: plugin.Plugin, Place: plugin.Place, Weight: plugin.Weight}
		r.parts = append(r.parts, rankPart{ClassScore: form, scores: *room})
	}
}

// remember normalises what is remembered of one plugin's scores.
func (a *attempt) remember(form *framework.ClassScore, room *[]int64) rankPart {
	row := a.class.raws[form.Place]
	if row == nil {
		zero := [1]int64{}
		form.Normal.Normalize(zero[:])
		return rankPart{ClassScore: form, same: zero[0]}
	}
	*room = sized(*room, len(a.window))
	scores := *room
	for i, slot := range a.window {
		scores[i] = row[slot]
	}
	form.Normal.Normalize(scores)
	return rankPart{ClassScore: form, scores: scores}
}

// rate asks a live form.
func (a *attempt) rate(form *framework.ClassScore, room *[]int64) (rankPart, framework.Scoring) {
	*room = sized(*room, len(a.window))
	scoring := a.framework.AskScore(a.State, form, a.window, *room)
	if scoring == framework.Scored && form.Normal != nil {
		form.Normal.Normalize(*room)
	}
	return rankPart{ClassScore: form, scores: *room}, scoring
}

// addUp makes the totals of what the walk met and of the parts.
func (r *ranking) addUp() {
	for i := range r.parts {
		if r.parts[i].scores == nil {
			r.base += r.parts[i].Weight * r.parts[i].same
		}
	}
	for p := range r.parts {
		part := &r.parts[p]
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
	slot := a.window[i]
	record := decision.NodeScore{
		Node: a.snapshot.Columns().Nodes[slot].Node().Name, Score: r.base + r.totals[i], Plugins: map[string]int64{},
	}
	for p := range r.parts {
		if part := &r.parts[p]; part.scores == nil {
			record.Plugins[part.Plugin] = part.Weight * part.same
		} else {
			record.Plugins[part.Plugin] = part.Weight * part.scores[i]
		}
	}
	for f := range a.class.forms.LastingScores {
		form := &a.class.forms.LastingScores[f]
		if raw := [1]int64{}; form.Normal == nil && form.ScoreForm.Score([]framework.Slot{slot}, raw[:]) == framework.Scored {
			record.Plugins[form.Plugin] = form.Weight * raw[0]
		}
	}
	return record
}
