package cycle

import "math/bits"

// Upstream's bounds of the sample, k8s.io/kubernetes/pkg/scheduler.
const (
	minNodes      = 100
	minPercentage = 5
)

// sample is how many feasible nodes are enough. A small cluster is searched
// whole; otherwise percentage of it, where 0 means 50 % less one for every 125
// nodes, and at least minNodes.
func sample(percentage int32, nodes int) int {
	if nodes < minNodes {
		return nodes
	}
	share := int(percentage)
	if share == 0 {
		share = max(50-nodes/125, minPercentage)
	}
	return max(nodes*share/100, minNodes)
}

// best returns the index of the highest total. Ties fall as they do upstream,
// where the totals are made a heap and its root is taken.
func best(totals []int64) int {
	winner := 0
	for i := 1; i < len(totals); i++ {
		if totals[i] > totals[winner] || totals[i] == totals[winner] && before(i, winner) {
			winner = i
		}
	}
	return winner
}

// before says whether index a of a tie beats index b. Building a heap moves
// the first of equal children up, so that among the maxima the one wins that
// stands first when the implicit tree is walked root, left, right.
func before(a, b int) bool {
	ua, ub := uint64(a+1), uint64(b+1)
	la, lb := bits.LeadingZeros64(ua), bits.LeadingZeros64(ub)
	if xa, xb := ua<<la, ub<<lb; xa != xb {
		return xa < xb
	}
	return la > lb // an ancestor stands before its descendants
}
