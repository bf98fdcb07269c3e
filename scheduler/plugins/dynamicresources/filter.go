package dynamicresources

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"
)

// Filter rejects a node on which an allocated claim is not available, or a claim cannot be
// allocated.
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
	if data.allocator != nil {
		if status = p.checkAllocatable(ctx, data, node, data.toAllocate(on)); status != nil {
			return status
		}
	}
	if len(unavailable) > 0 {
		data.setUnavailable(unavailable)
		return unresolvable("resourceclaim not available on the node")
	}
	if data.allocator != nil {
		data.setAllocation(node.Name, nodeAllocation{extendedOnNode: on, node: node})
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

// checkAllocatable returns nil if claims can be allocated on a node. A CEL expression that
// fails, and a search that takes too many steps, is an error, which ends the attempt.
func (p *Plugin) checkAllocatable(ctx context.Context, data *stateData, node *v1.Node, claims []*resourceapi.ResourceClaim) *fwk.Status {
	search := ctx
	if p.filterTimeout > 0 {
		search = &timeLimit{Context: ctx, clock: p.clock, limit: p.filterTimeout}
	}
	fits, err := data.allocator.Fits(search, node, claims)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		// An error, since the pod is tried again without an event.
		return fwk.AsStatus(fmt.Errorf("node %s: timed out trying to allocate devices", node.Name))
	case errors.Is(err, structured.ErrFailedAllocationOnNode):
		return unresolvable(err.Error())
	case ctx.Err() != nil:
		return unresolvable(fmt.Sprintf("asked by caller to stop allocating devices: %v", context.Cause(ctx)))
	case err != nil:
		return fwk.AsStatus(err)
	case !fits:
		return unresolvable("cannot allocate all claims")
	}
	return nil
}

// timeLimit is a context that has an error from a time after the first call of Err on. It
// is for a search that asks for the error from time to time: a timer for each node costs
// more than most searches. One goroutine may use it at a time.
type timeLimit struct {
	context.Context
	clock clock.PassiveClock
	limit time.Duration
	since time.Time
}

// Err returns the error of the parent, or context.DeadlineExceeded.
func (l *timeLimit) Err() error {
	if err := l.Context.Err(); err != nil {
		return err
	}
	now := l.clock.Now()
	if l.since.IsZero() {
		l.since = now
	}
	if now.Sub(l.since) >= l.limit {
		return context.DeadlineExceeded
	}
	return nil
}
