package cycle

import (
	"math/bits"
	"sync/atomic"

	"github.com/berthdev/berth/scheduler/fault"
)

// Upstream's bounds of the sample, k8s.io/kubernetes/pkg/scheduler.
const (
	minFeasibleNodesToFind           = 100
	minFeasibleNodesPercentageToFind = 5
)

// sample is how many feasible nodes are enough. A small cluster is searched
// whole; otherwise percentage of it, where 0 means 50 % less one for every 125
// nodes, and at least minNodes.
func numFeasibleNodesToFind(percentage int32, nodes int) int {
	if nodes < minFeasibleNodesToFind {
		return nodes
	}
	share := int(percentage)
	if share == 0 {
		share = max(50-nodes/125, minFeasibleNodesPercentageToFind)
	}
	return max(nodes*share/100, minFeasibleNodesToFind)
}

// best returns the index of the highest total. Ties fall as they do upstream,
// where the totals are made a heap and its root is taken.
func selectHost(totals []int64) int {
	order := heapOrderFor(len(totals))
	winner, most := 0, totals[0]
	for i, total := range totals {
		if total < most || total == most && (order[i] >= order[winner] || fault.FirstOfATie) {
			continue
		}
		winner, most = i, total
	}
	return winner
}

// heapOrder is where each index of a heap stands when the implicit tree is
// walked root, left, right: building a heap moves the first of equal children
// up, so that among the maxima the one wins that comes first on this walk.
var heapOrder atomic.Pointer[[]uint64]

// orderOf returns heapOrder for n indices at least.
func heapOrderFor(n int) []uint64 {
	if known := heapOrder.Load(); known != nil && len(*known) >= n {
		return *known
	}
	order := make([]uint64, n+n/4)
	for i := range order {
		// The way down from the root, and an ancestor before its descendants.
		at := uint64(i + 1)
		depth := bits.Len64(at)
		order[i] = at<<(64-depth)<<1 | uint64(depth)
	}
	heapOrder.Store(&order)
	return order
}
