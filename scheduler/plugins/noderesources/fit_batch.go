package noderesources

import (
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

var (
	_ framework.BatchFilterPlugin = (*Fit)(nil)
	_ framework.BatchScorePlugin  = (*Fit)(nil)
)

// FilterForm returns Filter for pods like pod; none for those that ask for
// something that columns do not hold.
func (*Fit) BatchFilter(state fwk.CycleState, _ *v1.Pod, columns *framework.Columns) (framework.BatchFilter, bool) {
	note, err := state.Read(fitPreFilterStateKey)
	wants, ok := note.(*podRequest)
	if err != nil || !ok || len(wants.scalars) > 0 {
		return nil, false
	}
	return &fitBatchFilter{columns, *wants}, true
}

// fitForm is lackOn for many nodes.
type fitBatchFilter struct {
	columns *framework.Columns
	request podRequest
}

// What a node lacks, as bits of a Refusal; with reasonOf in this order.
const (
	insufficientPods framework.RejectionCode = 1 << iota
	insufficientCPU
	insufficientMemory
	insufficientEphemeralStorage
	// tooSmall says that the node would not do even when empty.
	exceedsAllocatable
)

var reasonsByBit = []string{reasonPods, reasonCPU, reasonMemory, reasonEphemeralStorage}

func (f *fitBatchFilter) Filter(slots []framework.Slot, refusals []framework.RejectionCode) {
	for i, slot := range slots {
		row := &f.columns.Rows[slot]
		r := framework.NotRejected
		if row.Pods >= row.AllowedPods {
			r = insufficientPods
		}
		if f.request.cpu > 0 && f.request.cpu > row.AllocatableCPU-row.RequestedCPU {
			r |= withExceedsAllocatable(insufficientCPU, f.request.cpu, row.AllocatableCPU)
		}
		if f.request.memory > 0 && f.request.memory > row.AllocatableMemory-row.RequestedMemory {
			r |= withExceedsAllocatable(insufficientMemory, f.request.memory, row.AllocatableMemory)
		}
		if f.request.ephemeralStorage > 0 && f.request.ephemeralStorage > row.AllocatableStorage-row.RequestedStorage {
			r |= withExceedsAllocatable(insufficientEphemeralStorage, f.request.ephemeralStorage, row.AllocatableStorage)
		}
		refusals[i] = r
	}
}

func withExceedsAllocatable(what framework.RejectionCode, amount, offered int64) framework.RejectionCode {
	if amount > offered {
		what |= exceedsAllocatable
	}
	return what
}

func (*fitBatchFilter) Status(refusal framework.RejectionCode) *fwk.Status {
	var l insufficiency
	for i, reason := range reasonsByBit {
		if refusal&(1<<i) != 0 {
			l.reasons = append(l.reasons, reason)
		}
	}
	l.unresolvable = refusal&exceedsAllocatable != 0
	return l.status().WithPlugin(FitName)
}

// ScoreForm returns Score for pods like pod, where columns hold all that is
// scored by.
func (f *Fit) BatchScore(state fwk.CycleState, pod *v1.Pod, columns *framework.Columns) (framework.BatchScore, bool) {
	if !f.strategy.resources.allInColumns() {
		return nil, false
	}
	asked := getPreScoreState(state, fitPreScoreStateKey, f.strategy.resources, pod)
	return &fitBatchScore{columns, &f.strategy, asked}, true
}

type fitBatchScore struct {
	columns  *framework.Columns
	strategy *strategy
	requests scoredRequests
}

func (f *fitBatchScore) Score(slots []framework.Slot, scores []int64) framework.ScoreResult {
	var node nodeResources
	for i, slot := range slots {
		if same := node.read(&f.columns.Rows[slot], &f.strategy.resources); same && i > 0 {
			scores[i] = scores[i-1]
		} else {
			scores[i] = f.scoreNode(&node)
		}
	}
	return framework.Scored
}

func (f *fitBatchScore) scoreNode(node *nodeResources) int64 {
	mean := weightedMean{requestedToCapacityRatio: f.strategy.requestedToCapacityRatio}
	for n := range f.strategy.resources.specs {
		if on := &node[n]; on.offered != 0 {
			mean.add(f.strategy.scoreResource(on.taken+f.requests[n], on.offered), f.strategy.resources.specs[n].weight)
		}
	}
	return mean.value()
}
