package tainttoleration

import (
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

var (
	_ framework.BatchFilterPlugin = (*Plugin)(nil)
	_ framework.BatchScorePlugin  = (*Plugin)(nil)
)

// FilterForm returns Filter for pods like pod.
func (*Plugin) BatchFilter(_ fwk.CycleState, pod *v1.Pod, columns *framework.Columns) (framework.BatchFilter, bool) {
	return &batchFilter{taintListCache{columns: columns}, pod.Spec.Tolerations}, true
}

// ScoreForm returns Score for pods like pod.
func (*Plugin) BatchScore(state fwk.CycleState, _ *v1.Pod, columns *framework.Columns) (framework.BatchScore, bool) {
	note, err := state.Read(preScoreStateKey)
	tolerations, ok := note.(preScoreState)
	if err != nil || !ok {
		return nil, false
	}
	return &batchScore{taintListCache{columns: columns}, tolerations}, true
}

// byTaints remembers something by the number of a list of taints: nodes have
// few different ones.
type taintListCache struct {
	columns *framework.Columns
	era     uint64
	// known is one more than what is remembered; 0 is nothing.
	values []int64
}

// of returns what is remembered of the node's list, or asks.
func (b *taintListCache) get(slot framework.Slot, ask func(taints []v1.Taint) int64) int64 {
	id := b.columns.Taints[slot]
	if b.era != b.columns.Era {
		b.era, b.values = b.columns.Era, nil
	}
	for len(b.values) <= int(id) {
		b.values = append(b.values, 0)
	}
	if b.values[id] == 0 {
		b.values[id] = ask(b.columns.TaintList(id)) + 1
	}
	return b.values[id] - 1
}

type batchFilter struct {
	taintListCache
	tolerations []v1.Toleration
}

const untolerated = 1

// Idle says that no node has a taint.
func (f *batchFilter) Idle() bool { return !f.columns.HasTaints() }

func (f *batchFilter) Filter(slots []framework.Slot, refusals []framework.RejectionCode) {
	for i, slot := range slots {
		refusals[i] = framework.RejectionCode(f.get(slot, f.evaluate))
	}
}

func (f *batchFilter) evaluate(taints []v1.Taint) int64 {
	if framework.UntoleratedTaint(taints, f.tolerations) != nil {
		return untolerated
	}
	return 0
}

func (*batchFilter) Status(framework.RejectionCode) *fwk.Status {
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonUntoleratedTaint).WithPlugin(Name)
}

type batchScore struct {
	taintListCache
	tolerations preScoreState
}

// Idle says that no node has a taint that advises against it.
func (f *batchScore) Idle() bool { return !f.columns.HasPreferNoScheduleTaints() }

func (f *batchScore) Score(slots []framework.Slot, scores []int64) framework.ScoreResult {
	if !f.columns.HasPreferNoScheduleTaints() {
		clear(scores[:len(slots)])
		return framework.Scored
	}
	for i, slot := range slots {
		scores[i] = f.get(slot, f.tolerations.countUntolerated)
	}
	return framework.Scored
}

// Normalize is NormalizeScore.
func (*batchScore) Normalize(scores []int64) { framework.DefaultNormalizeRawScores(scores, true) }
