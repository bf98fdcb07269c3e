package dynamicresources

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// CountDevices returns what the requests of the claims find that are not allocated yet.
// Extended resources count as requested on a node that has none of them itself.
func (p *Plugin) CountDevices(ctx context.Context, state fwk.CycleState, pod *v1.Pod) []framework.DeviceCounts {
	data, err := getStateData(state)
	if err != nil || data.allocator == nil {
		return nil
	}
	var on extendedOnNode
	if extended := data.extended(); extended != nil && extended.claim.Name == framework.ExtendedClaimName {
		which := make([]byte, len(data.resources))
		for i, r := range data.resources {
			if r.class != "" {
				which[i] = 1
			}
		}
		on = data.extendedFor(pod, which)
	}
	return data.countDevices(ctx, nil, on, pod)
}

// countDevices counts the devices for the claims to allocate on a node, or on all for nil.
func (s *stateData) countDevices(ctx context.Context, node *v1.Node, on extendedOnNode, pod *v1.Pod) (all []framework.DeviceCounts) {
	for _, claim := range s.toAllocate(on) {
		counts := s.allocator.CountDevices(ctx, node, []*resourceapi.ResourceClaim{claim})
		for i := range counts {
			counts[i].Claim = nameInPod(pod, claim.Name)
			for _, m := range on.mappings {
				if claim == on.claim && m.RequestName == counts[i].Request {
					counts[i].Claim = m.ResourceName
				}
			}
		}
		all = append(all, counts...)
	}
	return all
}

// InsufficientResources appends the requests for devices of which the node has too few.
// Where each request finds enough, but not all of them together, or constraints exclude
// devices, it appends nothing.
func (p *Plugin) InsufficientResources(list []framework.InsufficientResource, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) []framework.InsufficientResource {
	data, err := getStateData(state)
	if err != nil || data.allocator == nil {
		return list
	}
	if _, fits := data.allocationOn(node.Node().Name); fits {
		return list
	}
	on, status := p.extendedOn(data, pod, node)
	if status != nil {
		return list
	}
	// Devices were evaluated by Filter: what is left to do does not wait.
	return appendMissing(list, data.countDevices(context.Background(), node.Node(), on, pod))
}

// appendMissing appends the requests of which no alternative finds enough devices. Of
// alternatives it takes the one that lacks least.
func appendMissing(list []framework.InsufficientResource, counts []framework.DeviceCounts) []framework.InsufficientResource {
	lack := func(c framework.DeviceCounts) int { return max(c.Wanted, 1) - c.Free }
	for first := 0; first < len(counts); {
		least, next := counts[first], first+1
		for ; next < len(counts) && counts[next].Claim == least.Claim && counts[next].Request == least.Request; next++ {
			if lack(counts[next]) < lack(least) {
				least = counts[next]
			}
		}
		first = next
		if lack(least) > 0 {
			list = append(list, framework.InsufficientResource{
				DeviceRequest: least.Claim + "/" + least.Request, Requested: int64(max(least.Wanted, 1)), Free: int64(least.Free),
			})
		}
	}
	return list
}

// nameInPod returns the name of a claim in the pod's spec.
func nameInPod(pod *v1.Pod, claim string) string {
	i := slices.IndexFunc(pod.Spec.ResourceClaims, func(c v1.PodResourceClaim) bool {
		name, _, err := resourceclaim.Name(pod, &c)
		return err == nil && name != nil && *name == claim
	})
	if i < 0 {
		return claim
	}
	return pod.Spec.ResourceClaims[i].Name
}
