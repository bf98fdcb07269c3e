package nodeaffinity

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

var _ framework.BatchScorePlugin = (*Plugin)(nil)

// ScoreForm returns Score for pods like pod.
func (p *Plugin) BatchScore(state fwk.CycleState, pod *v1.Pod, columns *framework.Columns) (framework.BatchScore, bool) {
	terms, err := preScoreTerms(state, pod)
	if err != nil {
		return nil, false
	}
	return &batchScore{p, terms, columns}, true
}

type batchScore struct {
	plugin  *Plugin
	terms   *nodeaffinity.PreferredSchedulingTerms
	columns *framework.Columns
}

func (f *batchScore) Score(slots []framework.Slot, scores []int64) framework.ScoreResult {
	for i, slot := range slots {
		scores[i] = f.plugin.sumWeights(f.terms, f.columns.Nodes[slot].Node())
	}
	return framework.Scored
}

// Normalize is NormalizeScore.
func (*batchScore) Normalize(scores []int64) { framework.DefaultNormalizeRawScores(scores, false) }
