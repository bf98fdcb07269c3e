package nodeaffinity

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

var _ framework.ScoreBatcher = (*Plugin)(nil)

// ScoreForm returns Score for pods like pod.
func (p *Plugin) ScoreForm(state fwk.CycleState, pod *v1.Pod, columns *framework.Columns) (framework.ScoreForm, bool) {
	terms, err := preferredOf(state, pod)
	if err != nil {
		return nil, false
	}
	return &scoreForm{p, terms, columns}, true
}

type scoreForm struct {
	plugin  *Plugin
	terms   *nodeaffinity.PreferredSchedulingTerms
	columns *framework.Columns
}

func (f *scoreForm) Score(slots []framework.Slot, scores []int64) framework.Scoring {
	for i, slot := range slots {
		scores[i] = f.plugin.weigh(f.terms, f.columns.Nodes[slot].Node())
	}
	return framework.Scored
}

// Normalize is NormalizeScore.
func (*scoreForm) Normalize(scores []int64) { framework.NormalizeAll(scores, false) }
