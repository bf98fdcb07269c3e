// Package cycle is one attempt to place one pod: filter, score, pick. It
// computes a Placement or an error and changes nothing but the start index.
package cycle

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/cache"
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
