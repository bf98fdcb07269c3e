package dynamicresources

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// PreEnqueue gates a pod until its claims exist and can be used.
func (p *Plugin) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	if _, err := p.claimsOf(pod); err != nil {
		return unresolvable(err.Error())
	}
	return nil
}

// PreFilter rejects a pod one of whose claims cannot be allocated or reserved now. It
// returns Skip for a pod without claims.
func (p *Plugin) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	data := &stateData{unavailable: map[int]bool{}, allocations: map[string]nodeAllocation{}}
	state.Write(stateKey, data)
	group := groupDataOf(state)
	if group != nil {
		group.pods[pod.UID] = data
	}
	claims, err := p.claimsOf(pod)
	if err != nil {
		return nil, unresolvable(err.Error())
	}
	checked := make([]podClaim, len(claims), len(claims)+1)
	for i, claim := range claims {
		checked[i].claim, checked[i].pendingUID = claim, claim.UID
	}
	extended, resources := p.extendedClaim(pod)
	if extended != nil {
		checked = append(checked, podClaim{claim: extended, pendingUID: extended.UID, extended: true})
	}
	if len(checked) == 0 {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	allocate := false
	for i := range checked {
		c := &checked[i]
		if !c.isAllocated() && group != nil && group.inFlight.Has(c.claim.UID) {
			c.shared = p.devices.ResourceClaims().GetPendingAllocation(c.claim.UID)
		}
		if status := p.checkClaim(pod, c); status != nil {
			return nil, status
		}
		allocate = allocate || !c.isAllocated()
	}
	if allocate {
		data.allocator = p.devices.Allocator()
	}
	data.claims, data.resources = checked, resources
	return nil, nil
}

// checkClaim rejects a claim that cannot be allocated or reserved for the pod now.
func (p *Plugin) checkClaim(pod *v1.Pod, c *podClaim) *fwk.Status {
	switch {
	case c.toAllocate():
		return p.checkUnallocated(c)
	case c.isAllocated() && !resourceclaim.CanBeReserved(c.claim) && !resourceclaim.IsReservedForPod(pod, c.claim, false):
		return unresolvable("resourceclaim in use")
	}
	if selector := c.decided().NodeSelector; selector != nil {
		var err error
		if c.availableOn, err = nodeaffinity.NewNodeSelector(selector); err != nil {
			return fwk.AsStatus(err)
		}
	}
	return nil
}

// checkUnallocated rejects a claim that is being allocated for another pod, or that
// requests devices of a class that does not exist.
func (p *Plugin) checkUnallocated(c *podClaim) *fwk.Status {
	claim := c.claim
	if p.devices.ResourceClaims().GetPendingAllocation(claim.UID) != nil {
		return unresolvable(fmt.Sprintf("resource claim %s is in the process of being allocated", klog.KObj(claim)))
	}
	if c.extended {
		return nil // its requests depend on the node
	}
	for i := range claim.Spec.Devices.Requests {
		request := &claim.Spec.Devices.Requests[i]
		switch {
		case request.Exactly != nil:
			if status := p.checkClass(request.Exactly.DeviceClassName, request.Name); status != nil {
				return status
			}
		case len(request.FirstAvailable) > 0:
			for j := range request.FirstAvailable {
				sub := &request.FirstAvailable[j]
				if status := p.checkClass(sub.DeviceClassName, request.Name+"/"+sub.Name); status != nil {
					return status
				}
			}
		default:
			return unresolvable(fmt.Sprintf("resource claim %s, request %s: unknown request type", klog.KObj(claim), request.Name))
		}
	}
	return nil
}

func (p *Plugin) checkClass(class, request string) *fwk.Status {
	if class == "" {
		return fwk.AsStatus(fmt.Errorf("request %s: unsupported request type", request))
	}
	if _, err := p.devices.DeviceClasses().Get(class); apierrors.IsNotFound(err) {
		return unresolvable(fmt.Sprintf("request %s: device class %s does not exist", request, class))
	}
	return nil
}

// PreFilterExtensions returns nil: pods that are preempted keep their devices until their
// claims are deallocated.
func (*Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }
