package tainttoleration

import (
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

var (
	_ framework.FilterBatcher = (*Plugin)(nil)
	_ framework.ScoreBatcher  = (*Plugin)(nil)
)

// FilterForm returns Filter for pods like pod.
func (*Plugin) FilterForm(_ fwk.CycleState, pod *v1.Pod, columns *framework.Columns) (framework.FilterForm, bool) {
	return &filterForm{byTaints{columns: columns}, pod.Spec.Tolerations}, true
}

// ScoreForm returns Score for pods like pod.
func (*Plugin) ScoreForm(state fwk.CycleState, _ *v1.Pod, columns *framework.Columns) (framework.ScoreForm, bool) {
	note, err := state.Read(scoreKey)
	tolerations, ok := note.(advisory)
	if err != nil || !ok {
		return nil, false
	}
	return &scoreForm{byTaints{columns: columns}, tolerations}, true
}

// byTaints remembers something by the number of a list of taints: nodes have
// few different ones.
type byTaints struct {
	columns *framework.Columns
	era     uint64
	// known is one more than what is remembered; 0 is nothing.
	known []int64
}

// of returns what is remembered of the node's list, or asks.
func (b *byTaints) of(slot framework.Slot, ask func(taints []v1.Taint) int64) int64 {
	id := b.columns.Taints[slot]
	if b.era != b.columns.Era {
		b.era, b.known = b.columns.Era, nil
	}
	for len(b.known) <= int(id) {
		b.known = append(b.known, 0)
	}
	if b.known[id] == 0 {
		b.known[id] = ask(b.columns.TaintList(id)) + 1
	}
	return b.known[id] - 1
}

type filterForm struct {
	byTaints
	tolerations []v1.Toleration
}

const tainted = 1

// Idle says that no node has a taint.
func (f *filterForm) Idle() bool { return !f.columns.Tainted() }

func (f *filterForm) Filter(slots []framework.Slot, refusals []framework.Refusal) {
	for i, slot := range slots {
		refusals[i] = framework.Refusal(f.of(slot, f.judge))
	}
}

func (f *filterForm) judge(taints []v1.Taint) int64 {
	if framework.UntoleratedTaint(taints, f.tolerations) != nil {
		return tainted
	}
	return 0
}

func (*filterForm) Status(framework.Refusal) *fwk.Status {
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonTainted).WithPlugin(Name)
}

type scoreForm struct {
	byTaints
	tolerations advisory
}

// Idle says that no node has a taint that advises against it.
func (f *scoreForm) Idle() bool { return !f.columns.Advised() }

func (f *scoreForm) Score(slots []framework.Slot, scores []int64) framework.Scoring {
	if !f.columns.Advised() {
		clear(scores[:len(slots)])
		return framework.Scored
	}
	for i, slot := range slots {
		scores[i] = f.of(slot, f.tolerations.untolerated)
	}
	return framework.Scored
}

// Normalize is NormalizeScore.
func (*scoreForm) Normalize(scores []int64) { framework.NormalizeAll(scores, true) }
