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
)

// Reserve records the allocations of the node as in flight, so that no later pod gets the
// same devices.
func (p *Plugin) Reserve(_ context.Context, state fwk.CycleState, _ *v1.Pod, node string) *fwk.Status {
	data, err := getStateData(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	want := len(data.toAllocate())
	if want == 0 {
		return nil
	}
	results, found := data.allocationsOn(node)
	switch {
	case !found || len(results) == 0:
		return fwk.AsStatus(errors.New("claim allocation not found for node"))
	case len(results) != want:
		return fwk.AsStatus(fmt.Errorf("internal error, have %d allocations, %d claims to allocate", len(results), want))
	}
	for i := range data.claims {
		c := &data.claims[i]
		if !c.toAllocate() {
			continue
		}
		c.allocation, results = &results[0], results[1:]
		allocated := c.claim.DeepCopy()
		if !slices.Contains(allocated.Finalizers, resourceapi.Finalizer) {
			allocated.Finalizers = append(allocated.Finalizers, resourceapi.Finalizer)
		}
		allocated.Status.Allocation = c.allocation
		if err := p.devices.ResourceClaims().SignalClaimPendingAllocation(c.claim.UID, allocated); err != nil {
			c.allocation = nil
			return fwk.AsStatus(fmt.Errorf("internal error, couldn't signal allocation for claim %s: %w", c.claim.Name, err))
		}
	}
	return nil
}

// Unreserve gives back the allocations in flight, and the reservations that PreBind has
// written. A claim that was written stays allocated, for the next attempt.
func (p *Plugin) Unreserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, _ string) {
	data, err := getStateData(state)
	if err != nil {
		return
	}
	tracker := p.devices.ResourceClaims()
	for i := range data.claims {
		c := &data.claims[i]
		if c.allocation != nil && tracker.MaybeRemoveClaimPendingAllocation(c.claim.UID, false) {
			tracker.AssumedClaimRestore(c.claim.Namespace, c.claim.Name)
		}
		c.allocation = nil
		if c.claim.Status.Allocation == nil || !resourceclaim.IsReservedForPod(pod, c.claim, false) {
			continue
		}
		if err := p.devices.UnreserveClaim(ctx, c.claim, pod); err != nil {
			// The next attempt finds the claim reserved for the pod.
			klog.FromContext(ctx).Error(err, "unreserve", "resourceclaim", klog.KObj(c.claim))
		}
	}
}
