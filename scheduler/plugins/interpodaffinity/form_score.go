package interpodaffinity

import (
	"math"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

var (
	_ framework.ScoreBatcher  = (*Plugin)(nil)
	_ framework.KeptScoreForm = (*scoreForm)(nil)
)

// ScoreForm returns Score for pods like pod.
func (p *Plugin) ScoreForm(_ fwk.CycleState, pod *v1.Pod, _ *framework.Columns) (framework.ScoreForm, bool) {
	if p.ownOnly && !prefers(pod) {
		return nil, true
	}
	own, err := p.preferences(pod)
	if _, kept := p.counts.(framework.KeptCounts); err != nil || !kept {
		return nil, false
	}
	return &scoreForm{preferred: preferred{own: own, others: p.othersOf(pod)}}, true
}

type scoreForm struct {
	preferred
	parts []byDomain
}

// Current reports whether the counts still move with the snapshot.
func (f *scoreForm) Current() bool {
	for i := range f.own {
		for _, part := range f.own[i].pods.Counted() {
			if !part.Current() {
				return false
			}
		}
	}
	return f.others.Update()
}

// Score adds up what is near the nodes, and is skipped when nobody prefers
// anything.
func (f *scoreForm) Score(slots []framework.Slot, scores []int64) framework.Scoring {
	if !f.others.Update() {
		return framework.ScoringBroken
	}
	ok := true
	f.parts = f.parts[:0]
	for i := range f.own {
		f.parts, ok = appendCounted(f.parts, f.own[i].pods, f.own[i].weight, ok)
	}
	for _, tally := range f.others.By {
		if tally.Listed() {
			f.parts, ok = appendCounted(f.parts, tally, 1, ok)
		}
	}
	switch {
	case !ok:
		return framework.ScoringBroken
	case !f.matter():
		return framework.NotScored
	}
	clear(scores[:len(slots)])
	for p := range f.parts {
		part := &f.parts[p]
		for i, slot := range slots {
			_, number := part.at(slot)
			scores[i] += part.factor * number
		}
	}
	return framework.Scored
}

// Normalize is NormalizeScore.
func (*scoreForm) Normalize(scores []int64) {
	least, most := int64(math.MaxInt64), int64(math.MinInt64)
	for _, score := range scores {
		least, most = min(least, score), max(most, score)
	}
	for i, score := range scores {
		scores[i] = stretched(score, least, most)
	}
}
