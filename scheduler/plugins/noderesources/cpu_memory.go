package noderesources

import (
	"github.com/berthdev/berth/scheduler/framework/counts"
)

// The batch scores of the default resources, cpu and memory. A new pod class is scored
// on hundreds of nodes at once, and the divisions take most of that time, so that they
// are divisions of floats where these give the same integers. The reference
// implementations are fitBatchScore.scoreNode and balancedBatchScore.scoreNode, which
// also score the nodes whose amounts are out of bounds.

// exactBelow bounds the amounts that quotient divides after multiplying them by 100: 100
// times 2^46 is less than 2^53.
const exactBelow = 1 << 46

// quotient returns n / d for 0 <= n < 2^53 and 0 < d < 2^53 by a division of floats, which
// takes a fraction of the time of a division of integers.
//
// It is exact: float64 holds n and d exactly. If d divides n, it also holds the quotient
// exactly. Otherwise let m be the next integer above n/d, which is at least 1/d away. Below
// m the distance of two floats is at most m/2^53, and rounding moves the quotient by at
// most half of that. m*d < n+d < 2^54, so m/2^54 < 1/d: the rounded quotient is less than
// m, and its integer part is that of n/d.
func quotient(n, d int64) int64 { return int64(float64(n) / float64(d)) }

// inBounds reports whether 0 <= used <= allocatable and 0 < allocatable < exactBelow.
func inBounds(used, allocatable int64) bool {
	return uint64(used) <= uint64(allocatable) && uint64(allocatable-1) < exactBelow-1
}

// cpuMemoryScorer is fitBatchScore for the strategy LeastAllocated and the default
// resources.
type cpuMemoryScorer struct {
	cpu, memory             int64 // requests
	cpuWeight, memoryWeight int64
}

// cpuMemoryScorer returns ok false for other strategies or resources.
func (f *fitBatchScore) cpuMemoryScorer() (scorer cpuMemoryScorer, ok bool) {
	specs := f.strategy.resources.specs
	if !f.strategy.leastAllocated || !f.strategy.resources.cpuAndMemoryOnly {
		return cpuMemoryScorer{}, false
	}
	return cpuMemoryScorer{f.requests[0], f.requests[1], specs[0].weight, specs[1].weight}, true
}

// score returns the weighted mean of the free fractions in percent, like
// fitBatchScore.scoreNode. ok is false if the amounts are out of bounds.
func (c *cpuMemoryScorer) score(row *counts.Row) (score int64, ok bool) {
	usedCPU, usedMemory := row.NonZeroCPU+c.cpu, row.NonZeroMemory+c.memory
	if !inBounds(usedCPU, row.AllocatableCPU) || !inBounds(usedMemory, row.AllocatableMemory) {
		return 0, false
	}
	freeCPU := quotient((row.AllocatableCPU-usedCPU)*100, row.AllocatableCPU)
	freeMemory := quotient((row.AllocatableMemory-usedMemory)*100, row.AllocatableMemory)
	return quotient(freeCPU*c.cpuWeight+freeMemory*c.memoryWeight, c.cpuWeight+c.memoryWeight), true
}

// scoreCPUAndMemory is Score by a cpuMemoryScorer.
func (f *fitBatchScore) scoreCPUAndMemory(scorer cpuMemoryScorer, slots []counts.Slot, scores []int64) {
	rows := f.columns.Rows
	scores = scores[:len(slots)]
	var last *counts.Row
	var score int64
	for i, slot := range slots {
		row := &rows[slot]
		// Many nodes are like the node before them, for example because both are empty.
		if last == nil || row.NonZeroCPU != last.NonZeroCPU || row.NonZeroMemory != last.NonZeroMemory ||
			row.AllocatableCPU != last.AllocatableCPU || row.AllocatableMemory != last.AllocatableMemory {
			var ok bool
			if score, ok = scorer.score(row); !ok {
				var node nodeResources
				node.readCPUAndMemory(row, true)
				score = f.scoreNode(&node)
			}
			last = row
		}
		scores[i] = score
	}
}

// scoreCPUAndMemory is Score for the default resources.
func (b *balancedBatchScore) scoreCPUAndMemory(slots []counts.Slot, scores []int64) {
	rows := b.columns.Rows
	scores = scores[:len(slots)]
	cpu, memory := b.requests[0], b.requests[1]
	var last *counts.Row
	var score int64
	for i, slot := range slots {
		row := &rows[slot]
		if last == nil || row.RequestedCPU != last.RequestedCPU || row.RequestedMemory != last.RequestedMemory ||
			row.AllocatableCPU != last.AllocatableCPU || row.AllocatableMemory != last.AllocatableMemory {
			score = b.scoreRow(row, cpu, memory)
			last = row
		}
		scores[i] = score
	}
}

// scoreRow returns the score of one node for a pod that requests cpu and memory.
func (b *balancedBatchScore) scoreRow(row *counts.Row, cpu, memory int64) int64 {
	if row.AllocatableCPU == 0 || row.AllocatableMemory == 0 {
		var node nodeResources
		node.readCPUAndMemory(row, false)
		return b.scoreNode(&node)
	}
	return scoreOfBalances(
		balanceOfTwo(fraction(row.RequestedCPU+cpu, row.AllocatableCPU), fraction(row.RequestedMemory+memory, row.AllocatableMemory)),
		balanceOfTwo(fraction(row.RequestedCPU, row.AllocatableCPU), fraction(row.RequestedMemory, row.AllocatableMemory)))
}
