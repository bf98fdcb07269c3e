// Package allocation chooses devices for ResourceClaims. It decides as the allocator of
// k8s.io/dynamic-resource-allocation does that the default feature gates of 1.37 pick: the
// same devices, results and errors. That allocator is the reference implementation.
//
// An Index holds slices by node and pool, and keeps which device matches which CEL
// expression; Allocated is what claims hold. Both change by what has changed. So the cost
// for one pod depends on the devices that its nodes offer, not on all slices and claims.
package allocation

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/berthdev/berth/scheduler/framework"
)

// Options are what an Allocator needs.
type Options struct {
	Index     *Index
	Allocated Allocated
	Classes   structured.DeviceClassLister
}

// Allocator allocates the claims of one attempt on nodes, with the slices that the index had
// when it was made. All its searches share a budget. It is safe for concurrent use.
type Allocator struct {
	options Options
	view    *view
	// plan is the one for the claims of the last call.
	plan atomic.Pointer[plan]
	// last is the node of the last call.
	last atomic.Pointer[nodeSlot]
	// budget is for one node, in tries; attemptBudget is for all together, in steps, and steps
	// counts those of the searches that have ended.
	budget        int
	attemptBudget int64
	steps         atomic.Int64
}

var _ framework.DeviceAllocator = &Allocator{}

// NewAllocator returns an allocator for the current content of o.Index.
func NewAllocator(o Options) *Allocator {
	return &Allocator{options: o, view: o.Index.now(), budget: searchBudget, attemptBudget: attemptBudget}
}

// Allocate returns the allocation of each claim on a node, or nil if they cannot be
// allocated there. Claims must not change while the allocator is used. An error that wraps
// structured.ErrFailedAllocationOnNode concerns only that node. Other errors concern the
// pod: a CEL expression fails, an object is invalid, the context ended, or the search, or all
// searches of the allocator together, took too many steps, which names node and claim.
func (a *Allocator) Allocate(ctx context.Context, node *v1.Node, claims []*resourceapi.ResourceClaim) ([]resourceapi.AllocationResult, error) {
	if a.planOf(claims).needsReference {
		reference, err := a.Reference(ctx)
		if err != nil {
			return nil, err
		}
		return reference.Allocate(ctx, node, claims)
	}
	solved, err := a.solve(ctx, node, claims)
	if solved == nil {
		return nil, err
	}
	defer searches.Put(solved)
	return solved.result()
}

// Fits reports whether Allocate would return allocations. It builds none, and allocates
// no memory for a node that it knows already. Arguments are as for Allocate.
func (a *Allocator) Fits(ctx context.Context, node *v1.Node, claims []*resourceapi.ResourceClaim) (bool, error) {
	if a.planOf(claims).needsReference {
		results, err := a.Allocate(ctx, node, claims)
		return results != nil, err
	}
	solved, err := a.solve(ctx, node, claims)
	if solved == nil {
		return false, err
	}
	searches.Put(solved)
	return true, nil
}

// solve returns a search with a solution, which the caller puts back into searches, or nil
// if there is none.
func (a *Allocator) solve(ctx context.Context, node *v1.Node, claims []*resourceapi.ResourceClaim) (*search, error) {
	pools := a.options.Index.gather(a.view, node, &a.last)
	if pools.err != nil {
		return nil, fmt.Errorf("gather pool information: %w", pools.err)
	}
	s := searches.Get().(*search)
	s.ctx, s.node, s.allocated, s.pools = ctx, node, &a.options.Allocated, pools
	s.reset(a.planOf(claims))
	s.setBudget(a)
	done, err := s.run()
	a.steps.Add(s.steps())
	if done {
		err = s.checkNodeSelectors()
	}
	switch {
	case err == nil && done:
		return s, nil
	case err == nil && pools.anyInvalid:
		err = fmt.Errorf("invalid resource pools were encountered%w", structured.ErrFailedAllocationOnNode)
	}
	searches.Put(s)
	return nil, err
}

// planOf returns the plan for claims, which is made once for the nodes of a pod.
func (a *Allocator) planOf(claims []*resourceapi.ResourceClaim) *plan {
	if last := a.plan.Load(); last != nil && last.isFor(claims) {
		return last
	}
	if needsReference(claims) {
		next := &plan{needsReference: true}
		for _, claim := range claims {
			next.claims = append(next.claims, claimPlan{claim: claim})
		}
		a.plan.Store(next)
		return next
	}
	b := planner{classes: a.options.Classes, expressions: a.options.Index.expressions, shapes: &a.options.Index.shapes}
	next := b.planOf(claims)
	a.plan.Store(next)
	return next
}

func (p *plan) isFor(claims []*resourceapi.ResourceClaim) bool {
	return slices.EqualFunc(p.claims, claims, func(c claimPlan, claim *resourceapi.ResourceClaim) bool { return c.claim == claim })
}
