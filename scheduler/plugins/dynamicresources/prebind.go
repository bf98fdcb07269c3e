package dynamicresources

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

var (
	errBindingTimeout = errors.New("device binding timeout")
	errBindingFailed  = errors.New("device binding failed")
)

// PreBindPreFlight returns Skip for a pod without claims.
func (*Plugin) PreBindPreFlight(_ context.Context, state fwk.CycleState, _ *v1.Pod, _ string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	result := &fwk.PreBindPreFlightResult{AllowParallel: true}
	data, err := getStateData(state)
	switch {
	case err != nil:
		return result, fwk.AsStatus(err)
	case len(data.claims) == 0:
		return result, fwk.NewStatus(fwk.Skip)
	}
	return result, nil
}

// PreBind writes allocations and reservations into the claims, and waits for the binding
// conditions of their devices. After an error the pod is scheduled again.
func (p *Plugin) PreBind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	data, err := getStateData(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	for i := range data.claims {
		c := &data.claims[i]
		if c.extended {
			err = p.bindExtended(ctx, data, pod, node)
		} else {
			err = p.bindClaim(ctx, c, pod)
		}
		if err != nil {
			return fwk.AsStatus(err)
		}
	}
	if err := p.awaitBindingConditions(ctx, data, pod, node); err != nil {
		return fwk.AsStatus(err)
	}
	for i := range data.claims {
		if c := &data.claims[i]; c.allocation != nil {
			// Another pod of the group may still have to write it, also after the claim was deallocated
			// meanwhile: its devices must not go to another claim. kube-scheduler removes it here.
			if tracker := p.devices.ResourceClaims(); tracker.GetPendingAllocation(c.pendingUID) == c.allocation {
				tracker.MaybeRemoveClaimPendingAllocation(c.pendingUID, false)
			}
			// Unreserve must not end an allocation of the claim for another pod.
			c.allocation = nil
		}
	}
	return nil
}

// bindClaim writes the allocation and the reservation of one claim.
func (p *Plugin) bindClaim(ctx context.Context, c *podClaim, pod *v1.Pod) error {
	written, err := p.devices.BindClaim(ctx, c.claim, c.allocation, pod)
	if written != nil {
		c.claim = written // Unreserve needs it
	}
	return err
}

// bindExtended creates the claim for extended resources, writes its allocation, and tells
// the kubelet in the pod's status which containers use it. It does nothing if the pod gets
// no devices for them on the node. kube-scheduler fails there if the pod has other claims.
func (p *Plugin) bindExtended(ctx context.Context, data *stateData, pod *v1.Pod, node string) error {
	c := data.extended()
	on, _ := data.allocationOn(node)
	if c.allocation == nil || len(on.mappings) == 0 {
		return nil
	}
	created, err := p.devices.CreateClaim(ctx, on.claim)
	if err != nil {
		return err
	}
	c.claim = created
	if err := p.bindClaim(ctx, c, pod); err != nil {
		return err
	}
	return p.devices.SetExtendedResourceClaimStatus(ctx, pod, &v1.PodExtendedResourceClaimStatus{
		ResourceClaimName: created.Name, RequestMappings: on.mappings,
	})
}

// awaitBindingConditions waits until the devices of all claims are ready.
func (p *Plugin) awaitBindingConditions(ctx context.Context, data *stateData, pod *v1.Pod, node string) error {
	var claims []*resourceapi.ResourceClaim
	for i := range data.claims {
		if hasBindingConditions(data.claims[i].claim) {
			claims = append(claims, data.claims[i].claim)
		}
	}
	if len(claims) == 0 {
		return nil
	}
	p.handle.EventRecorder().WithLogger(klog.FromContext(ctx)).Eventf(pod, nil, v1.EventTypeNormal, "BindingConditionsPending", "Scheduling",
		"waiting for binding conditions for device on node %s", node)
	begin := p.clock.Now()
	err := p.devices.AwaitClaims(ctx, p.bindingTimeout, claims, func() (bool, error) { return p.allReady(data) })
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", errBindingTimeout, err)
	}
	framework.ObserveBindingConditions(p.handle.ProfileName(), bindingOutcome(err), data.all(), p.clock.Since(begin))
	return err
}

// bindingOutcome returns the label of metrics for the result of a wait.
func bindingOutcome(err error) string {
	switch {
	case err == nil:
		return "success"
	case errors.Is(err, errBindingTimeout):
		return "timeout"
	case errors.Is(err, errBindingFailed):
		return "failure"
	}
	return "error"
}

// allReady reports whether the devices of all claims are ready, by the newest versions.
func (p *Plugin) allReady(data *stateData) (bool, error) {
	for i := range data.claims {
		claim := data.claims[i].claim
		if claim.Name == framework.ExtendedClaimName {
			continue // the node itself has the resources
		}
		latest, err := p.devices.ResourceClaims().Get(claim.Namespace, claim.Name)
		if err != nil {
			return false, err
		}
		data.claims[i].claim = latest
		ready, err := isReadyForBinding(latest)
		switch {
		case err != nil:
			return false, err
		case ready:
			continue
		case p.hasTimedOut(latest):
			return false, fmt.Errorf("%w: claim=%s", errBindingTimeout, latest.Name)
		}
		return false, nil
	}
	return true, nil
}

func hasBindingConditions(claim *resourceapi.ResourceClaim) bool {
	if claim.Status.Allocation == nil {
		return false
	}
	for i := range claim.Status.Allocation.Devices.Results {
		if len(claim.Status.Allocation.Devices.Results[i].BindingConditions) > 0 {
			return true
		}
	}
	return false
}

// isReadyForBinding reports whether all binding conditions of the claim's devices are True.
// The error says that a binding failure condition is.
func isReadyForBinding(claim *resourceapi.ResourceClaim) (bool, error) {
	if claim.Status.Allocation == nil {
		return false, nil
	}
	for i := range claim.Status.Allocation.Devices.Results {
		result := &claim.Status.Allocation.Devices.Results[i]
		if len(result.BindingConditions) == 0 {
			continue
		}
		conditions := conditionsOf(claim, result)
		for _, name := range result.BindingFailureConditions {
			if failed := meta.FindStatusCondition(conditions, name); failed != nil && failed.Status == metav1.ConditionTrue {
				return false, fmt.Errorf("%w: claim=%s, reason=%s, message=%q", errBindingFailed, claim.Name, failed.Reason, failed.Message)
			}
		}
		for _, name := range result.BindingConditions {
			if !meta.IsStatusConditionTrue(conditions, name) {
				return false, nil
			}
		}
	}
	return true, nil
}

// conditionsOf returns the conditions of an allocated device; nil if it has no status.
func conditionsOf(claim *resourceapi.ResourceClaim, result *resourceapi.DeviceRequestAllocationResult) []metav1.Condition {
	for i := range claim.Status.Devices {
		device := &claim.Status.Devices[i]
		if device.Device == result.Device && device.Driver == result.Driver && device.Pool == result.Pool {
			return device.Conditions
		}
	}
	return nil
}

// hasTimedOut reports whether a claim with binding conditions was allocated longer ago than
// the binding timeout.
func (p *Plugin) hasTimedOut(claim *resourceapi.ResourceClaim) bool {
	allocation := claim.Status.Allocation
	return allocation != nil && allocation.AllocationTimestamp != nil && hasBindingConditions(claim) &&
		allocation.AllocationTimestamp.Add(p.bindingTimeout).Before(p.clock.Now())
}
