// Package cycle is one attempt to place one pod: filter, score, pick. It
// computes a Placement or an error and changes nothing but the start index.
package cycle

import (
	"context"
	"errors"
	"math/bits"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// ErrNoNodes says that the cluster has no nodes at all. It names no plugin, so
// that the pod is tried again after a backoff.
var ErrNoNodes = errors.New("no nodes available to schedule pods")

// Cycle holds what one attempt leaves to the next: where in the list of nodes
// the next walk starts. One value serves all profiles and survives swaps.
type Cycle struct {
	nextStartNodeIndex int
}

// Start is the index of the node that the next walk starts at, give or take whole
// rounds: nodes may have gone since.
func (c *Cycle) NextStartNodeIndex() int { return c.nextStartNodeIndex }

// StartAt lets the next walk start where another one did.
func (c *Cycle) SetNextStartNodeIndex(start int) { c.nextStartNodeIndex = start }

// Request is what one attempt is about.
type Request struct {
	Framework *framework.Framework
	// PercentageOfNodesToScore is the profile's; 0 means the adaptive rule.
	PercentageOfNodesToScore int32
	Pod                      *v1.Pod
	Snapshot                 *cache.Snapshot
	// State is empty.
	State fwk.CycleState
	// Memo is the profile's; nil asks every plugin about every node.
	EquivalenceCache *EquivalenceCache
}

// Run looks for the best node. The error is a *framework.FitError when the pod
// fits nowhere, ErrNoNodes, or what went wrong.
func (c *Cycle) Run(ctx context.Context, r Request) (*Placement, error) {
	if r.Snapshot.Len() == 0 {
		return nil, ErrNoNodes
	}
	placement, said, err, done := c.runCached(ctx, r)
	if done {
		increment(r.Framework, cachedAttempts)
		return placement, err
	}
	increment(r.Framework, uncachedAttempts)
	if r.EquivalenceCache != nil {
		r.EquivalenceCache.stats.Uncached++
	}
	if said == nil {
		said = runPreFilter(ctx, r)
	}
	return c.runReference(ctx, r, said)
}

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
