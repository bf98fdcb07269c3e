package dynamicresources

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
)

// Filter rejects a node on which an allocated claim is not available, or a claim cannot be
// allocated. It keeps the allocation of each other node.
func (p *Plugin) Filter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodeInfo fwk.NodeInfo) *fwk.Status {
	data, err := getStateData(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if len(data.claims) == 0 {
		return nil
	}
	on, status := p.extendedOn(data, pod, nodeInfo)
	switch {
	case status != nil:
		return status
	case on.claim == nil && len(data.claims) == 1 && data.extended() != nil:
		return nil // the node itself has the resources
	}
	node := nodeInfo.Node()
	var unavailable []int
	for i := range data.claims {
		if !p.isAvailable(&data.claims[i], node) {
			unavailable = append(unavailable, i)
		}
	}
	var results []resourceapi.AllocationResult
	if data.allocator != nil {
		if results, status = p.allocate(ctx, data, node, data.toAllocate(on)); status != nil {
			return status
		}
	}
	if len(unavailable) > 0 {
		data.setUnavailable(unavailable)
		return unresolvable("resourceclaim not available on the node")
	}
	if data.allocator != nil {
		data.setAllocation(node.Name, nodeAllocation{on, results})
	}
	return nil
}

// isAvailable reports whether the devices of an allocated claim are available on a node,
// and no binding condition of them has failed or timed out. A claim that is not allocated
// is available.
func (p *Plugin) isAvailable(c *podClaim, node *v1.Node) bool {
	if c.toAllocate() {
		return true
	}
	if c.availableOn != nil && !c.availableOn.Match(node) {
		return false
	}
	ready, err := isReadyForBinding(c.claim)
	return err == nil && (ready || !p.hasTimedOut(c.claim))
}

// allocate returns an allocation for each of claims. The status is nil if all have one. A CEL expression that fails is an error, which ends the attempt.
func (p *Plugin) allocate(ctx context.Context, data *stateData, node *v1.Node, claims []*resourceapi.ResourceClaim) ([]resourceapi.AllocationResult, *fwk.Status) {
	search := ctx
	if p.filterTimeout > 0 {
		var cancel context.CancelFunc
		search, cancel = context.WithTimeout(ctx, p.filterTimeout)
		defer cancel()
	}
	results, err := data.allocator.Allocate(search, node, claims)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		// An error, since the pod is tried again without an event.
		return nil, fwk.AsStatus(fmt.Errorf("node %s: timed out trying to allocate devices", node.Name))
	case errors.Is(err, structured.ErrFailedAllocationOnNode):
		return nil, unresolvable(err.Error())
	case ctx.Err() != nil:
		return nil, unresolvable(fmt.Sprintf("asked by caller to stop allocating devices: %v", context.Cause(ctx)))
	case err != nil:
		return nil, fwk.AsStatus(err)
	case len(results) != len(claims):
		return nil, unresolvable("cannot allocate all claims")
	}
	return results, nil
}
