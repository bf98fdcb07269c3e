package noderesources

import (
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

var (
	_ framework.FilterBatcher = (*Fit)(nil)
	_ framework.ScoreBatcher  = (*Fit)(nil)
)

// FilterForm returns Filter for pods like pod; none for those that ask for
// something that columns do not hold.
func (*Fit) FilterForm(state fwk.CycleState, _ *v1.Pod, columns *framework.Columns) (framework.FilterForm, bool) {
	note, err := state.Read(fitFilterKey)
	wants, ok := note.(*demand)
	if err != nil || !ok || len(wants.scalars) > 0 {
		return nil, false
	}
	return &fitForm{columns, *wants}, true
}

// fitForm is lackOn for many nodes.
type fitForm struct {
	columns *framework.Columns
	wants   demand
}

// What a node lacks, as bits of a Refusal; with reasonOf in this order.
const (
	lacksPods framework.Refusal = 1 << iota
	lacksCPU
	lacksMemory
	lacksStorage
	// tooSmall says that the node would not do even when empty.
	tooSmall
)

var reasonOf = []string{reasonPods, reasonCPU, reasonMemory, reasonEphemeralStorage}

func (f *fitForm) Filter(slots []framework.Slot, refusals []framework.Refusal) {
	for i, slot := range slots {
		row := &f.columns.Rows[slot]
		r := framework.Fits
		if row.Pods >= row.Room {
			r = lacksPods
		}
		if f.wants.cpu > 0 && f.wants.cpu > row.OfferedCPU-row.TakenCPU {
			r |= lacking(lacksCPU, f.wants.cpu, row.OfferedCPU)
		}
		if f.wants.memory > 0 && f.wants.memory > row.OfferedMemory-row.TakenMemory {
			r |= lacking(lacksMemory, f.wants.memory, row.OfferedMemory)
		}
		if f.wants.ephemeralStorage > 0 && f.wants.ephemeralStorage > row.OfferedStorage-row.TakenStorage {
			r |= lacking(lacksStorage, f.wants.ephemeralStorage, row.OfferedStorage)
		}
		refusals[i] = r
	}
}

func lacking(what framework.Refusal, amount, offered int64) framework.Refusal {
	if amount > offered {
		what |= tooSmall
	}
	return what
}

func (*fitForm) Status(refusal framework.Refusal) *fwk.Status {
	var l lack
	for i, reason := range reasonOf {
		if refusal&(1<<i) != 0 {
			l.reasons = append(l.reasons, reason)
		}
	}
	l.ofWholeNode = refusal&tooSmall != 0
	return l.status().WithPlugin(FitName)
}

// ScoreForm returns Score for pods like pod, where columns hold all that is
// scored by.
func (f *Fit) ScoreForm(state fwk.CycleState, pod *v1.Pod, columns *framework.Columns) (framework.ScoreForm, bool) {
	if !f.strategy.resources.inColumns() {
		return nil, false
	}
	asked := readAmounts(state, fitScoreKey, f.strategy.resources, pod)
	return &fitScores{columns, &f.strategy, asked}, true
}

type fitScores struct {
	columns  *framework.Columns
	strategy *strategy
	asked    amounts
}

func (f *fitScores) Score(slots []framework.Slot, scores []int64) framework.Scoring {
	var node holding
	for i, slot := range slots {
		if same := node.read(&f.columns.Rows[slot], &f.strategy.resources); same && i > 0 {
			scores[i] = scores[i-1]
		} else {
			scores[i] = f.of(&node)
		}
	}
	return framework.Scored
}

func (f *fitScores) of(node *holding) int64 {
	mean := weightedMean{shaped: f.strategy.shaped}
	for n := range f.strategy.resources.specs {
		if on := &node[n]; on.offered != 0 {
			mean.add(f.strategy.rate(on.taken+f.asked[n], on.offered), f.strategy.resources.specs[n].weight)
		}
	}
	return mean.value()
}
