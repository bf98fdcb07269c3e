// Package cycle is the scheduling cycle: it finds the best node for one pod. It
// returns a Placement or an error, and changes nothing except the start index
// of the next attempt and its own equivalence cache.
package cycle

import (
	"context"
	"errors"
	"math/bits"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/framework"
)

// ErrNoNodes says that the cluster has no nodes. It names no plugin, so that
// the pod is tried again after a backoff.
var ErrNoNodes = errors.New("no nodes available to schedule pods")

// Cycle holds the index of the node at which the next attempt starts. One value
// serves all profiles and survives profile swaps.
type Cycle struct {
	nextStartNodeIndex int
}

// NextStartNodeIndex is the index of the node at which the next attempt starts.
// It may exceed the number of nodes; it is taken modulo that number.
func (c *Cycle) NextStartNodeIndex() int { return c.nextStartNodeIndex }

// SetNextStartNodeIndex sets the index of the node at which the next attempt
// starts.
func (c *Cycle) SetNextStartNodeIndex(start int) { c.nextStartNodeIndex = start }

// Request is the input of one attempt.
type Request struct {
	Framework *framework.Framework
	// PercentageOfNodesToScore is the profile's; 0 selects the adaptive
	// default.
	PercentageOfNodesToScore int32
	Pod                      *v1.Pod
	Snapshot                 *cache.Snapshot
	// State must be empty.
	State fwk.CycleState
	// EquivalenceCache is the profile's; nil runs the reference.
	EquivalenceCache *EquivalenceCache
}

// Run finds the best node. The error is a *framework.FitError if the pod does
// not fit on any node, ErrNoNodes, or the error of a plugin or extender.
func (c *Cycle) Run(ctx context.Context, r Request) (*Placement, error) {
	if r.Snapshot.Len() == 0 {
		return nil, ErrNoNodes
	}
	placement, preFiltered, done, err := c.runCached(ctx, r)
	if abandoned := framework.CheckAbandoned(r.State); abandoned != nil {
		return nil, abandoned
	}
	if done {
		increment(r.Framework, cachedAttempts)
		return placement, err
	}
	increment(r.Framework, uncachedAttempts)
	if r.EquivalenceCache != nil {
		r.EquivalenceCache.stats.Uncached++
	}
	if preFiltered == nil {
		preFiltered = runPreFilter(ctx, r)
	}
	return c.runReference(ctx, r, preFiltered)
}

// Bounds of k8s.io/kubernetes/pkg/scheduler.
const (
	minFeasibleNodesToFind           = 100
	minFeasibleNodesPercentageToFind = 5
)

// numFeasibleNodesToFind is the number of feasible nodes after which the search
// ends. In a cluster of fewer than 100 nodes it is all; otherwise percentage of
// the nodes, where 0 means 50 % minus one for every 125 nodes, and at least
// minFeasibleNodesToFind.
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

// selectHost returns the index of the highest total. Of equal totals it returns
// the one that kube-scheduler chooses, which builds a heap of the nodes and
// takes its root.
func selectHost(totals []int64) int {
	order := heapOrderFor(len(totals))
	winner, most := 0, totals[0]
	for i, total := range totals {
		if total < most || total == most && order[i] >= order[winner] {
			continue
		}
		winner, most = i, total
	}
	return winner
}

// heapOrder is the position of each index of a heap in a preorder walk of the
// implicit tree (root, left, right). Building a heap moves the first of equal
// children up, so that of several maxima the first in this order becomes the
// root.
var heapOrder atomic.Pointer[[]uint64]

// heapOrderFor returns heapOrder for at least n indices.
func heapOrderFor(n int) []uint64 {
	if known := heapOrder.Load(); known != nil && len(*known) >= n {
		return *known
	}
	order := make([]uint64, n+n/4)
	for i := range order {
		// The path from the root, so that an ancestor is before its
		// descendants.
		at := uint64(i + 1)
		depth := bits.Len64(at)
		order[i] = at<<(64-depth)<<1 | uint64(depth)
	}
	heapOrder.Store(&order)
	return order
}
