package noderesources

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// scoredResources are the resources that a plugin scores by, in the order of its
// arguments.
type scoredResources struct {
	specs []scoredResource
	// nonZeroRequests uses default requests for containers that request no cpu or
	// memory, for the pod and for the pods on the node.
	nonZeroRequests bool
	// cpuAndMemoryOnly is true for the default resources: cpu and memory, in this
	// order.
	cpuAndMemoryOnly bool
	// scorer counts the devices of resources that DeviceClasses back.
	scorer *deviceScorer
}

// scoredResource is one of the resources that a plugin scores by.
type scoredResource struct {
	name   v1.ResourceName
	weight int64
	// column is where the columns hold the resource.
	column column
	// scalar resources do not count for a pod that requests none of them.
	scalar bool
}

func newScoredResources(specs []configv1.ResourceSpec, nonZeroRequests bool, classes deviceClasses) scoredResources {
	s := scoredResources{specs: make([]scoredResource, len(specs)), nonZeroRequests: nonZeroRequests, scorer: newDeviceScorer(classes)}
	for i, spec := range specs {
		name := v1.ResourceName(spec.Name)
		s.specs[i] = scoredResource{
			name: name, weight: spec.Weight, column: columnOf(name, nonZeroRequests), scalar: framework.IsScalarResourceName(name),
		}
	}
	s.cpuAndMemoryOnly = len(s.specs) == 2 && s.specs[0].name == v1.ResourceCPU && s.specs[1].name == v1.ResourceMemory
	return s
}

// scoredRequests are the requests that a pod is scored with, in the order of the scored
// resources; cpu is in millicores.
type scoredRequests []int64

// scoreState is what PreScore stores.
type scoreState struct {
	requests scoredRequests
	// devices is nil unless the pod requests a scored resource that a DeviceClass backs.
	devices *scoredDevices
}

// Clone returns the value itself, which never changes.
func (s *scoreState) Clone() fwk.StateData { return s }

// isZero reports whether the pod requests none of the scored resources.
func (a scoredRequests) isZero() bool {
	for _, amount := range a {
		if amount != 0 {
			return false
		}
	}
	return true
}

// requestsOf returns the requests that pod is scored with.
//
// With nonZeroRequests, which NodeResourcesFit sets, pod-level requests do not count:
// in k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources the scorer of Fit
// does not get the feature gates that Fit itself reads, so it uses only the requests of
// containers. The scorer of BalancedAllocation does get them.
func (s scoredResources) requestsOf(pod *v1.Pod) scoredRequests {
	if sum, ok := framework.SumRequests(pod); ok && s.allInColumns() {
		return s.requestsFromSum(&sum)
	}
	var requests v1.ResourceList
	if s.nonZeroRequests {
		requests = framework.ComputePodRequests(pod, resourcehelper.PodResourcesOptions{
			SkipPodLevelResources: true,
			NonMissingContainerRequests: v1.ResourceList{
				v1.ResourceCPU:    *resource.NewMilliQuantity(framework.DefaultMilliCPURequest, resource.DecimalSI),
				v1.ResourceMemory: *resource.NewQuantity(framework.DefaultMemoryRequest, resource.DecimalSI),
			},
		})
	} else {
		requests = framework.RunningPodRequests(pod, nil)
	}
	list := make(scoredRequests, len(s.specs))
	for i := range s.specs {
		quantity := requests[s.specs[i].name]
		if s.specs[i].name == v1.ResourceCPU {
			list[i] = framework.ClampRequest(quantity.MilliValue())
		} else {
			list[i] = framework.ClampRequest(quantity.Value())
		}
	}
	return list
}

// requestsFromSum returns the same as requestsOf from the summed requests of a pod.
func (s scoredResources) requestsFromSum(sum *framework.RequestSum) scoredRequests {
	list := make(scoredRequests, len(s.specs))
	for i := range s.specs {
		switch name := s.specs[i].name; {
		case name == v1.ResourceEphemeralStorage:
			list[i] = sum.EphemeralStorage
		case name == v1.ResourceCPU && s.nonZeroRequests:
			list[i] = sum.ScoredCPU
		case name == v1.ResourceCPU:
			list[i] = sum.MilliCPU
		case s.nonZeroRequests:
			list[i] = sum.ScoredMemory
		default:
			list[i] = sum.Memory
		}
	}
	return list
}

// stateOf returns what PreScore stores.
func (s scoredResources) stateOf(pod *v1.Pod) (*scoreState, error) {
	data := &scoreState{requests: s.requestsOf(pod)}
	var err error
	data.devices, err = s.scorer.devices(s, data.requests)
	return data, err
}

// getPreScoreState returns what PreScore stored under key, or computes it again where a
// profile enables Score without PreScore.
func getPreScoreState(state fwk.CycleState, key fwk.StateKey, s scoredResources, pod *v1.Pod) (*scoreState, error) {
	if data, err := state.Read(key); err == nil {
		if stored, ok := data.(*scoreState); ok {
			return stored, nil
		}
	}
	return s.stateOf(pod)
}

// nodeAmounts returns how much of the ith resource is allocatable on node and how much
// is requested. counts is false, and the resource is not scored, when none is
// allocatable, or when it is scalar and the pod requests none. Of a resource that the
// node itself does not have, the devices count.
func (s scoredResources) nodeAmounts(ctx context.Context, node fwk.NodeInfo, i int, data *scoreState) (allocatable, requested int64, counts bool) {
	spec := &s.specs[i]
	if spec.scalar && data.requests[i] == 0 {
		return 0, 0, false
	}
	allocatable = resourceAmount(node.GetAllocatable(), spec.name)
	if allocatable == 0 && spec.scalar && data.devices != nil {
		allocatable, requested = data.devices.amounts(ctx, node.Node(), spec.name)
		return allocatable, requested, allocatable > 0
	}
	if allocatable == 0 {
		return 0, 0, false
	}
	sums := node.GetRequested()
	if s.nonZeroRequests && (spec.name == v1.ResourceCPU || spec.name == v1.ResourceMemory) {
		sums = node.GetNonZeroRequested()
	}
	return allocatable, resourceAmount(sums, spec.name), true
}
