package interpodaffinity

import (
	"math"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework/counts"
	"github.com/berthdev/berth/scheduler/framework/podclass"
)

var (
	_ podclass.BatchScorePlugin      = (*Plugin)(nil)
	_ podclass.IncrementalBatchScore = (*batchScore)(nil)
)

// BatchScore returns the batch form of Score for pods of the same class as pod.
func (p *Plugin) BatchScore(_ fwk.CycleState, pod *v1.Pod, _ *counts.Columns) (podclass.BatchScore, bool) {
	if p.ignorePreferredTermsOfExistingPods && !hasPreferredTerms(pod) {
		return nil, true
	}
	own, err := p.preferredTerms(pod)
	if _, incremental := p.counts.(counts.Incremental); err != nil || !incremental {
		return nil, false
	}
	return &batchScore{preScoreState: preScoreState{own: own, existingPods: p.termsOfExistingPods(pod)}}, true
}

// batchScore is the batch form of Score.
type batchScore struct {
	preScoreState
	counts []domainCounts
}

// Current reports whether the counts are still maintained.
func (f *batchScore) Current() bool {
	for i := range f.own {
		for _, part := range f.own[i].counts.Terms() {
			if !part.Current() {
				return false
			}
		}
	}
	return f.existingPods.Update()
}

// Score adds up the weighted counts of each node's domains. It returns NotScored when
// there are no preferred terms.
func (f *batchScore) Score(slots []counts.Slot, scores []int64) podclass.ScoreResult {
	if !f.existingPods.Update() {
		return podclass.ScoreFailed
	}
	ok := true
	f.counts = f.counts[:0]
	for i := range f.own {
		f.counts, ok = appendDomainCounts(f.counts, f.own[i].counts, f.own[i].weight, ok)
	}
	for _, sum := range f.existingPods.ByTopologyKey {
		if sum.HasListed() {
			f.counts, ok = appendDomainCounts(f.counts, sum, 1, ok)
		}
	}
	switch {
	case !ok:
		return podclass.ScoreFailed
	case !f.hasAnyTerm():
		return podclass.ScoreSkipped
	}
	clear(scores[:len(slots)])
	for p := range f.counts {
		part := &f.counts[p]
		for i, slot := range slots {
			_, count := part.at(slot)
			scores[i] += part.weight * count
		}
	}
	return podclass.Scored
}

// Normalize is the batch form of NormalizeScore.
func (*batchScore) Normalize(scores []int64) {
	least, most := int64(math.MaxInt64), int64(math.MinInt64)
	for _, score := range scores {
		least, most = min(least, score), max(most, score)
	}
	for i, score := range scores {
		scores[i] = normalizedScore(score, least, most)
	}
}
