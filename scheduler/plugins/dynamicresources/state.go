package dynamicresources

import (
	"context"
	"errors"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

const stateKey fwk.StateKey = Name

// stateData are the claims of the pod and the results of earlier extension points.
type stateData struct {
	claims []podClaim
	// resources are those that the pod requests and classes can back, if one backs any.
	resources []extendedResource
	// allocator allocates the claims that are not allocated; nil if all are.
	allocator framework.DeviceAllocator

	// mappings are the container's requests for extended resources on the node of Reserve.
	mappings []v1.ContainerExtendedResourceRequest

	// mu guards what Filter writes.
	mu sync.Mutex
	// unavailable are the indices of allocated claims that were not available on a node.
	unavailable map[int]bool
	// extendedClaims are the claims for extended resources, by which resources are devices.
	extendedClaims map[string]extendedOnNode
	// allocations are by node.
	allocations map[string]nodeAllocation
}

// nodeAllocation is what the pod gets on one node, where all its claims can be allocated.
type nodeAllocation struct {
	extendedOnNode
	node *v1.Node
	// results are in the order of the claims to allocate; nil until they are needed.
	results []resourceapi.AllocationResult
}

// podClaim is one claim of the pod.
type podClaim struct {
	// claim is the version that PreFilter found; in PreBind the one that was written.
	claim *resourceapi.ResourceClaim
	// extended says that it is the claim for extended resources, which comes last.
	extended bool
	// pendingUID identifies the allocation in flight: the claim's UID in PreFilter, which
	// for extended resources differs from that of the claim that PreBind creates.
	pendingUID types.UID
	// availableOn selects the nodes of an allocated claim; nil selects all.
	availableOn *nodeaffinity.NodeSelector
	// shared is the allocation in flight that the pod shares with a pod before it in the cycle
	// of their group.
	shared *resourceapi.AllocationResult
	// allocation is what Reserve has recorded as in flight for a claim that was not allocated.
	allocation *resourceapi.AllocationResult
}

// isAllocated reports whether the allocation of the claim was written.
func (c *podClaim) isAllocated() bool { return c.claim.Status.Allocation != nil }

// decided returns the allocation that was written, or that the pod shares; nil where devices
// have to be chosen for the claim.
func (c *podClaim) decided() *resourceapi.AllocationResult {
	if c.isAllocated() {
		return c.claim.Status.Allocation
	}
	return c.shared
}

// toAllocate reports whether devices have to be chosen for the claim.
func (c *podClaim) toAllocate() bool { return c.decided() == nil }

// Clone returns the value itself: allocations do not depend on other pods, whose claims
// keep their devices while they are preempted.
func (s *stateData) Clone() fwk.StateData { return s }

// all returns the newest known versions of all claims.
func (s *stateData) all() []*resourceapi.ResourceClaim {
	claims := make([]*resourceapi.ResourceClaim, len(s.claims))
	for i := range s.claims {
		claims[i] = s.claims[i].claim
	}
	return claims
}

// extended returns the claim for extended resources; nil if the pod has none.
func (s *stateData) extended() *podClaim {
	if last := len(s.claims) - 1; last >= 0 && s.claims[last].extended {
		return &s.claims[last]
	}
	return nil
}

// toAllocate returns the claims to allocate on a node, with the claim for extended
// resources that the node needs.
func (s *stateData) toAllocate(on extendedOnNode) []*resourceapi.ResourceClaim {
	var claims []*resourceapi.ResourceClaim
	for i := range s.claims {
		switch c := &s.claims[i]; {
		case !c.toAllocate():
		case !c.extended:
			claims = append(claims, c.claim)
		case on.claim != nil:
			claims = append(claims, on.claim)
		}
	}
	return claims
}

func (s *stateData) setAllocation(node string, allocation nodeAllocation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.allocations[node] = allocation
}

// allocationOn returns what Filter found for a node, without results.
func (s *stateData) allocationOn(node string) (allocation nodeAllocation, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	allocation, found = s.allocations[node]
	return allocation, found
}

// resultsOn returns what Filter found for a node, with results: those of the first call,
// since the IDs of shares are random. Filter makes none, because one node of all is
// chosen.
func (s *stateData) resultsOn(ctx context.Context, node string) (allocation nodeAllocation, found bool, err error) {
	allocation, found = s.allocationOn(node)
	if !found || allocation.results != nil || s.allocator == nil {
		return allocation, found, nil
	}
	allocation.results, err = s.allocator.Allocate(ctx, allocation.node, s.toAllocate(allocation.extendedOnNode))
	if err != nil {
		return nodeAllocation{}, false, err
	}
	s.setAllocation(node, allocation)
	return allocation, true, nil
}

func (s *stateData) setUnavailable(claims []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range claims {
		s.unavailable[i] = true
	}
}

// isUnavailable reports whether a claim was not available on a node.
func (s *stateData) isUnavailable(claim int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unavailable[claim]
}

// getStateData returns what PreFilter stored. It returns an error in a profile that does
// not enable PreFilter.
func getStateData(state fwk.CycleState) (*stateData, error) {
	data, err := state.Read(stateKey)
	if err != nil {
		return nil, err
	}
	typed, ok := data.(*stateData)
	if !ok {
		return nil, errors.New("unable to convert state into stateData")
	}
	return typed, nil
}
