package noderesources

import (
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

var _ framework.BatchScorePlugin = (*Balanced)(nil)

// ScoreForm returns Score for pods like pod, where columns hold all that is
// scored by.
func (b *Balanced) BatchScore(state fwk.CycleState, pod *v1.Pod, columns *framework.Columns) (framework.BatchScore, bool) {
	if !b.resources.allInColumns() {
		return nil, false
	}
	asked := getPreScoreState(state, balancedPreScoreStateKey, b.resources, pod)
	if asked.isZero() {
		return nil, false
	}
	return &balancedBatchScore{columns, b.resources, asked}, true
}

type balancedBatchScore struct {
	columns   *framework.Columns
	resources scoredResources
	requests  scoredRequests
}

func (b *balancedBatchScore) Score(slots []framework.Slot, scores []int64) framework.ScoreResult {
	var node nodeResources
	for i, slot := range slots {
		if same := node.read(&b.columns.Rows[slot], &b.resources); same && i > 0 {
			scores[i] = scores[i-1]
		} else {
			scores[i] = b.scoreNode(&node)
		}
	}
	return framework.Scored
}

func (b *balancedBatchScore) scoreNode(node *nodeResources) int64 {
	if cpu, memory := &node[0], &node[1]; len(b.requests) == 2 && cpu.offered != 0 && memory.offered != 0 {
		return scoreOfBalances(
			balanceOfTwo(fraction(cpu.taken+b.requests[0], cpu.offered), fraction(memory.taken+b.requests[1], memory.offered)),
			balanceOfTwo(fraction(cpu.taken, cpu.offered), fraction(memory.taken, memory.offered)))
	}
	var with, without [maxInlineResources]float64
	n := 0
	for r := range b.requests {
		if on := &node[r]; on.offered != 0 {
			with[n], without[n] = fraction(on.taken+b.requests[r], on.offered), fraction(on.taken, on.offered)
			n++
		}
	}
	return scoreOfFractions(with[:n], without[:n])
}
