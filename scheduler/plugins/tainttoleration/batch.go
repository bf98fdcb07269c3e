package tainttoleration

import (
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/framework/counts"
	"github.com/berthdev/berth/scheduler/framework/podclass"
)

var (
	_ podclass.BatchFilterPlugin = (*Plugin)(nil)
	_ podclass.BatchScorePlugin  = (*Plugin)(nil)
)

// BatchFilter returns the batch form of Filter for pods of the same class as pod.
func (*Plugin) BatchFilter(_ fwk.CycleState, pod *v1.Pod, columns *counts.Columns) (podclass.BatchFilter, bool) {
	return &batchFilter{taintListCache{columns: columns}, pod.Spec.Tolerations}, true
}

// BatchScore returns the batch form of Score for pods of the same class as pod. It
// returns ok false if PreScore did not run.
func (*Plugin) BatchScore(state fwk.CycleState, _ *v1.Pod, columns *counts.Columns) (podclass.BatchScore, bool) {
	data, err := state.Read(preScoreStateKey)
	tolerations, ok := data.(preScoreState)
	if err != nil || !ok {
		return nil, false
	}
	return &batchScore{taintListCache{columns: columns}, tolerations}, true
}

// taintListCache caches a value for each different list of taints: nodes have few
// different lists.
type taintListCache struct {
	columns *counts.Columns
	era     uint64
	// values are the cached values plus one, by the number of the list; 0 stands for no
	// value.
	values []int64
}

// get returns the value for the taints of the node in slot. It calls compute if the
// value is not cached.
func (b *taintListCache) get(slot counts.Slot, compute func(taints []v1.Taint) int64) int64 {
	id := b.columns.Taints[slot]
	if b.era != b.columns.Era {
		b.era, b.values = b.columns.Era, nil
	}
	for len(b.values) <= int(id) {
		b.values = append(b.values, 0)
	}
	if b.values[id] == 0 {
		b.values[id] = compute(b.columns.TaintList(id)) + 1
	}
	return b.values[id] - 1
}

// batchFilter is the batch form of Filter.
type batchFilter struct {
	taintListCache
	tolerations []v1.Toleration
}

const untolerated = 1

// Idle reports that no node has a taint.
func (f *batchFilter) Idle() bool { return !f.columns.HasTaints() }

// Filter writes the verdict of each slot to codes.
func (f *batchFilter) Filter(slots []counts.Slot, codes []podclass.RejectionCode) {
	for i, slot := range slots {
		codes[i] = podclass.RejectionCode(f.get(slot, f.evaluate))
	}
}

func (f *batchFilter) evaluate(taints []v1.Taint) int64 {
	if framework.UntoleratedTaint(taints, f.tolerations) != nil {
		return untolerated
	}
	return 0
}

func (*batchFilter) Status(podclass.RejectionCode) *fwk.Status {
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonUntoleratedTaint).WithPlugin(Name)
}

// batchScore is the batch form of Score.
type batchScore struct {
	taintListCache
	tolerations preScoreState
}

// Idle reports that no node has a PreferNoSchedule taint.
func (f *batchScore) Idle() bool { return !f.columns.HasPreferNoScheduleTaints() }

// Score writes the count of each slot to scores.
func (f *batchScore) Score(slots []counts.Slot, scores []int64) podclass.ScoreResult {
	if !f.columns.HasPreferNoScheduleTaints() {
		clear(scores[:len(slots)])
		return podclass.Scored
	}
	for i, slot := range slots {
		scores[i] = f.get(slot, f.tolerations.countUntolerated)
	}
	return podclass.Scored
}

// Normalize is the batch form of NormalizeScore.
func (*batchScore) Normalize(scores []int64) { framework.DefaultNormalizeRawScores(scores, true) }
