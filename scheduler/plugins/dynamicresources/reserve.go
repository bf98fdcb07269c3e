package dynamicresources

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// Reserve records the allocations of the node as in flight, so that no later pod gets the
// same devices.
//
// kube-scheduler confuses the claims of a pod if one that is shared in its group comes before
// one of its own.
func (p *Plugin) Reserve(ctx context.Context, state fwk.CycleState, _ *v1.Pod, node string) *fwk.Status {
	data, err := getStateData(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if data.allocator == nil {
		return nil
	}
	on, found, err := data.resultsOn(ctx, node)
	if err != nil {
		return fwk.AsStatus(err)
	}
	group, claims := groupDataOf(state), data.toAllocate(on.extendedOnNode)
	switch {
	case !found && len(claims) == 0:
		return nil // the node itself has the extended resources
	case !found || len(on.results) == 0 && len(claims) > 0:
		return fwk.AsStatus(errors.New("claim allocation not found for node"))
	case len(on.results) != len(claims):
		return fwk.AsStatus(fmt.Errorf("internal error, have %d allocations, %d claims to allocate", len(on.results), len(claims)))
	}
	data.mappings = on.mappings
	next := 0
	for i := range data.claims {
		c := &data.claims[i]
		switch {
		case c.isAllocated() || c.extended && on.claim == nil:
			continue
		case c.shared != nil:
			err = p.reserveClaim(c, c.claim, c.shared)
		default:
			err = p.reserveClaim(c, claims[next], &on.results[next])
			next++
		}
		if err != nil {
			return fwk.AsStatus(err)
		}
		if group != nil {
			group.inFlight.Insert(c.pendingUID)
		}
	}
	return nil
}

// reserveClaim records the allocation of one claim as in flight. claim has the requests
// for the node.
func (p *Plugin) reserveClaim(c *podClaim, claim *resourceapi.ResourceClaim, allocation *resourceapi.AllocationResult) error {
	allocated := claim.DeepCopy()
	if !slices.Contains(allocated.Finalizers, resourceapi.Finalizer) {
		allocated.Finalizers = append(allocated.Finalizers, resourceapi.Finalizer)
	}
	allocated.Status.Allocation = allocation
	if err := p.devices.ResourceClaims().SignalClaimPendingAllocation(c.pendingUID, allocated); err != nil {
		return fmt.Errorf("internal error, couldn't signal allocation for claim %s: %w", claim.Name, err)
	}
	c.allocation = allocation
	return nil
}

// Unreserve gives back the allocations in flight, and the reservations that PreBind has
// written. A claim that was written stays allocated, for the next attempt; the claim for
// extended resources is deleted.
func (p *Plugin) Unreserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, _ string) {
	data, err := getStateData(state)
	if err != nil {
		return
	}
	tracker, group := p.devices.ResourceClaims(), groupDataOf(state)
	for i := range data.claims {
		c := &data.claims[i]
		// Another pod of the group may have written the allocation since, and it may be given
		// back and the claim allocated again.
		isInFlight := c.allocation != nil && tracker.GetPendingAllocation(c.pendingUID) == c.allocation
		if isInFlight && p.devices.EndPending(c.pendingUID, framework.MayBeSeen(state)) {
			tracker.AssumedClaimRestore(c.claim.Namespace, c.claim.Name)
			if group != nil {
				group.inFlight.Delete(c.pendingUID)
			}
		}
		c.allocation = nil
		if c.extended {
			p.deleteExtended(ctx, c.claim)
			continue
		}
		if c.claim.Status.Allocation == nil || !resourceclaim.IsReservedForPod(pod, c.claim, false) {
			continue
		}
		if err := p.devices.UnreserveClaim(ctx, c.claim, pod); err != nil {
			// The next attempt finds the claim reserved for the pod.
			klog.FromContext(ctx).Error(err, "unreserve", "resourceclaim", klog.KObj(c.claim))
		}
	}
}

// deleteExtended deletes the claim for extended resources that PreBind has created.
func (p *Plugin) deleteExtended(ctx context.Context, claim *resourceapi.ResourceClaim) {
	if claim.Name == framework.ExtendedClaimName {
		return
	}
	if err := p.devices.DeleteClaim(ctx, claim); err != nil {
		// The next attempt finds the claim, and PostFilter deletes it.
		klog.FromContext(ctx).Error(err, "delete", "resourceclaim", klog.KObj(claim))
	}
}
