package noderesources

import (
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework/counts"
	"github.com/berthdev/berth/scheduler/framework/podclass"
)

var (
	_ podclass.BatchFilterPlugin = (*Fit)(nil)
	_ podclass.BatchScorePlugin  = (*Fit)(nil)
)

// BatchFilter returns the batch form of Filter for pods of the same class as pod. It
// returns ok false if the pod requests a resource that the columns do not hold.
func (*Fit) BatchFilter(state fwk.CycleState, _ *v1.Pod, columns *counts.Columns) (podclass.BatchFilter, bool) {
	data, err := state.Read(fitPreFilterStateKey)
	request, ok := data.(*podRequest)
	if err != nil || !ok || len(request.scalars) > 0 {
		return nil, false
	}
	return &fitBatchFilter{columns, *request}, true
}

// fitBatchFilter is the batch form of Fit.Filter.
type fitBatchFilter struct {
	columns *counts.Columns
	request podRequest
}

// The reasons for rejecting a node, as bits of a RejectionCode. The order of the bits
// is that of reasonsByBit.
const (
	insufficientPods podclass.RejectionCode = 1 << iota
	insufficientCPU
	insufficientMemory
	insufficientEphemeralStorage
	// exceedsAllocatable is set when a request exceeds what is allocatable on the node.
	exceedsAllocatable
)

var reasonsByBit = []string{reasonPods, reasonCPU, reasonMemory, reasonEphemeralStorage}

// Filter writes the verdict of each slot to codes.
func (f *fitBatchFilter) Filter(slots []counts.Slot, codes []podclass.RejectionCode) {
	rows, codes := f.columns.Rows, codes[:len(slots)]
	cpu, memory, storage := f.request.cpu, f.request.memory, f.request.ephemeralStorage
	for i, slot := range slots {
		row := &rows[slot]
		r := podclass.NotRejected
		if row.Pods >= row.AllowedPods {
			r = insufficientPods
		}
		if cpu > 0 && cpu > row.AllocatableCPU-row.RequestedCPU {
			r |= withExceedsAllocatable(insufficientCPU, cpu, row.AllocatableCPU)
		}
		if memory > 0 && memory > row.AllocatableMemory-row.RequestedMemory {
			r |= withExceedsAllocatable(insufficientMemory, memory, row.AllocatableMemory)
		}
		if storage > 0 && storage > row.AllocatableStorage-row.RequestedStorage {
			r |= withExceedsAllocatable(insufficientEphemeralStorage, storage, row.AllocatableStorage)
		}
		codes[i] = r
	}
}

func withExceedsAllocatable(code podclass.RejectionCode, amount, allocatable int64) podclass.RejectionCode {
	if amount > allocatable {
		code |= exceedsAllocatable
	}
	return code
}

func (*fitBatchFilter) Status(code podclass.RejectionCode) *fwk.Status {
	var l insufficiency
	for i, reason := range reasonsByBit {
		if code&(1<<i) != 0 {
			l.reasons = append(l.reasons, reason)
		}
	}
	l.unresolvable = code&exceedsAllocatable != 0
	return l.status().WithPlugin(FitName)
}

// BatchScore returns the batch form of Score for pods of the same class as pod. It
// returns ok false if the columns do not hold all scored resources.
func (f *Fit) BatchScore(state fwk.CycleState, pod *v1.Pod, columns *counts.Columns) (podclass.BatchScore, bool) {
	if !f.strategy.resources.allInColumns() {
		return nil, false
	}
	data, err := getPreScoreState(state, fitPreScoreStateKey, f.strategy.resources, pod)
	if err != nil {
		return nil, false
	}
	return &fitBatchScore{columns, &f.strategy, data.requests}, true
}

// fitBatchScore is the batch form of Fit.Score.
type fitBatchScore struct {
	columns  *counts.Columns
	strategy *strategy
	requests scoredRequests
}

// Score writes the score of each slot to scores.
func (f *fitBatchScore) Score(slots []counts.Slot, scores []int64) podclass.ScoreResult {
	if scorer, ok := f.cpuMemoryScorer(); ok {
		f.scoreCPUAndMemory(scorer, slots, scores)
		return podclass.Scored
	}
	var node nodeResources
	for i, slot := range slots {
		if same := node.read(&f.columns.Rows[slot], &f.strategy.resources); same && i > 0 {
			scores[i] = scores[i-1]
		} else {
			scores[i] = f.scoreNode(&node)
		}
	}
	return podclass.Scored
}

func (f *fitBatchScore) scoreNode(node *nodeResources) int64 {
	mean := weightedMean{requestedToCapacityRatio: f.strategy.requestedToCapacityRatio}
	for n := range f.strategy.resources.specs {
		if on := &node[n]; on.allocatable != 0 {
			mean.add(f.strategy.scoreResource(on.requested+f.requests[n], on.allocatable), f.strategy.resources.specs[n].weight)
		}
	}
	return mean.value()
}
