package noderesources

import (
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

var _ framework.ScoreBatcher = (*Balanced)(nil)

// ScoreForm returns Score for pods like pod, where columns hold all that is
// scored by.
func (b *Balanced) ScoreForm(state fwk.CycleState, pod *v1.Pod, columns *framework.Columns) (framework.ScoreForm, bool) {
	if !b.resources.inColumns() {
		return nil, false
	}
	asked := readAmounts(state, balancedScoreKey, b.resources, pod)
	if asked.none() {
		return nil, false
	}
	return &balancedScores{columns, b.resources, asked}, true
}

type balancedScores struct {
	columns   *framework.Columns
	resources scoredResources
	asked     amounts
}

func (b *balancedScores) Score(slots []framework.Slot, scores []int64) framework.Scoring {
	var node holding
	for i, slot := range slots {
		if same := node.read(&b.columns.Rows[slot], &b.resources); same && i > 0 {
			scores[i] = scores[i-1]
		} else {
			scores[i] = b.of(&node)
		}
	}
	return framework.Scored
}

func (b *balancedScores) of(node *holding) int64 {
	if cpu, memory := &node[0], &node[1]; len(b.asked) == 2 && cpu.offered != 0 && memory.offered != 0 {
		return improved(
			balanceOfTwo(share(cpu.taken+b.asked[0], cpu.offered), share(memory.taken+b.asked[1], memory.offered)),
			balanceOfTwo(share(cpu.taken, cpu.offered), share(memory.taken, memory.offered)))
	}
	var with, without [inlineShares]float64
	n := 0
	for r := range b.asked {
		if on := &node[r]; on.offered != 0 {
			with[n], without[n] = share(on.taken+b.asked[r], on.offered), share(on.taken, on.offered)
			n++
		}
	}
	return improvement(with[:n], without[:n])
}
