package generate

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/berthdev/berth/scheduler/sandbox/log"
	"github.com/berthdev/berth/test/support/fixture"
)

// NewWithDevices returns a history of a cluster with devices, whose pods use claims and
// extended resources. No scheduler of a history runs Reserve: once a pod has a node, the
// history itself allocates its claims, and releases them when the pod is deleted. A claim
// may get other devices than a scheduler would choose, as from another one.
func NewWithDevices(seed uint64, attempts int) *Generator {
	g := New(seed, attempts)
	g.initial = append(g.initial, g.deviceObjects(min(g.initialNodes, 12))...)
	return g
}

// hasOwnClaim reports whether the controller generates a claim for a pod; ownClaim is its
// name.
func hasOwnClaim(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.ResourceClaims, func(r v1.PodResourceClaim) bool { return r.ResourceClaimTemplateName != nil })
}

func ownClaim(pod *v1.Pod) string { return pod.Name + "-own" }

// createOwnClaim creates the claim of a template, if the pod has one, before the pod is
// tried. Rarely the controller is late.
func (g *Generator) createOwnClaim(pod *v1.Pod) {
	if !hasOwnClaim(pod) || g.chance(5) {
		return
	}
	name := ownClaim(pod)
	pod.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "own", ResourceClaimName: &name}}
	if g.chance(95) {
		g.prerequisites = append(g.prerequisites, apply(g.newDeviceClaim(pod.Namespace+"/"+name, pod)))
	}
}

// claimsOf returns the keys of the claims of a pod that exist.
func (g *Generator) claimsOf(pod *v1.Pod) (keys []string) {
	for _, used := range pod.Spec.ResourceClaims {
		name := ownClaim(pod)
		if used.ResourceClaimName != nil {
			name = *used.ResourceClaimName
		}
		if key := pod.Namespace + "/" + name; g.devices.claims[key] != nil {
			keys = append(keys, key)
		}
	}
	return keys
}

// allocateClaims allocates free devices to the claims of a pod that has got a node, and
// reserves the claims for it, before the next op.
func (g *Generator) allocateClaims(pod *v1.Pod) {
	var ops []log.Op
	for _, key := range g.claimsOf(pod) {
		claim := g.devices.claims[key].DeepCopy()
		if claim.Status.Allocation == nil {
			claim.Status.Allocation = g.allocationOn(pod.Spec.NodeName, claim)
		}
		if claim.Status.Allocation == nil {
			continue
		}
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, fixture.Consumer(pod))
		g.devices.claims[key] = claim
		ops = append(ops, apply(claim.DeepCopy()))
	}
	g.initial = append(ops, g.initial...)
}

// allocationOn returns an allocation of as many free devices of a node as a claim requests,
// or of all that there are; nil if there is none. A claim with alternatives gets one device.
func (g *Generator) allocationOn(node string, claim *resourceapi.ResourceClaim) (allocation *resourceapi.AllocationResult) {
	request := cmp.Or(claim.Spec.Devices.Requests[0].Exactly, &resourceapi.ExactDeviceRequest{Count: 1})
	for _, free := range g.freeDevices() {
		if free.Devices.Results[0].Pool != node {
			continue
		}
		if allocation == nil {
			allocation = free
		} else {
			allocation.Devices.Results = append(allocation.Devices.Results, free.Devices.Results...)
		}
		if request.AllocationMode != resourceapi.DeviceAllocationModeAll && int64(len(allocation.Devices.Results)) >= request.Count {
			break
		}
	}
	return allocation
}

// releaseClaims has the ops after the deletion of a pod delete the claim that it owned and
// take back its reservations of others, which are deallocated with the last one.
func (g *Generator) releaseClaims(pod *v1.Pod) {
	var ops []log.Op
	for _, key := range g.claimsOf(pod) {
		claim := g.devices.claims[key].DeepCopy()
		if claim.Name == ownClaim(pod) {
			delete(g.devices.claims, key)
			ops = append(ops, log.Op{Kind: log.Delete, Object: claim})
			continue
		}
		reserved := len(claim.Status.ReservedFor)
		claim.Status.ReservedFor = slices.DeleteFunc(claim.Status.ReservedFor, func(c resourceapi.ResourceClaimConsumerReference) bool { return c.UID == pod.UID })
		if len(claim.Status.ReservedFor) == reserved {
			continue
		}
		if len(claim.Status.ReservedFor) == 0 {
			claim.Status.Allocation = nil
		}
		g.devices.claims[key] = claim
		ops = append(ops, apply(claim.DeepCopy()))
	}
	g.initial = append(ops, g.initial...)
}
