package dynamicresources

import (
	"errors"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
)

const stateKey fwk.StateKey = Name

// stateData are the claims of the pod and the results of earlier extension points.
type stateData struct {
	claims []podClaim
	// allocator allocates the claims that are not allocated; nil if all are.
	allocator structured.Allocator

	// mu guards what Filter writes.
	mu sync.Mutex
	// unavailable are the indices of allocated claims that were not available on a node.
	unavailable map[int]bool
	// allocations are the results by node, in the order of the claims to allocate.
	allocations map[string][]resourceapi.AllocationResult
}

// podClaim is one claim of the pod.
type podClaim struct {
	// claim is the version that PreFilter found; in PreBind the one that was written.
	claim *resourceapi.ResourceClaim
	// availableOn selects the nodes of an allocated claim; nil selects all.
	availableOn *nodeaffinity.NodeSelector
	// allocation is what Reserve has chosen for a claim that was not allocated.
	allocation *resourceapi.AllocationResult
}

func (c *podClaim) toAllocate() bool { return c.claim.Status.Allocation == nil }

// Clone returns the value itself: allocations do not depend on other pods, whose claims
// keep their devices while they are preempted.
func (s *stateData) Clone() fwk.StateData { return s }

// toAllocate returns the claims that are not allocated.
func (s *stateData) toAllocate() []*resourceapi.ResourceClaim {
	var claims []*resourceapi.ResourceClaim
	for i := range s.claims {
		if s.claims[i].toAllocate() {
			claims = append(claims, s.claims[i].claim)
		}
	}
	return claims
}

func (s *stateData) setAllocations(node string, results []resourceapi.AllocationResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.allocations[node] = results
}

func (s *stateData) allocationsOn(node string) (results []resourceapi.AllocationResult, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	results, found = s.allocations[node]
	return results, found
}

func (s *stateData) setUnavailable(claims []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range claims {
		s.unavailable[i] = true
	}
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
