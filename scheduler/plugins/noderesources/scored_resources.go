package noderesources

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// scoredResources are the resources that a plugin scores by, in the order of
// its arguments.
type scoredResources struct {
	specs []scoredResource
	// assume gives containers without a request the default one, on the pod's
	// side and on the node's.
	nonZeroRequests bool
	// usual says that the resources are cpu and memory, in this order, as they are
	// unless a profile says otherwise.
	cpuAndMemoryOnly bool
}

type scoredResource struct {
	name   v1.ResourceName
	weight int64
	// held is where columns hold the resource.
	column column
	// scalar resources do not count for a pod that asks for none.
	scalar bool
}

func newScoredResources(specs []configv1.ResourceSpec, assume bool) scoredResources {
	s := scoredResources{specs: make([]scoredResource, len(specs)), nonZeroRequests: assume}
	for i, spec := range specs {
		name := v1.ResourceName(spec.Name)
		s.specs[i] = scoredResource{
			name: name, weight: spec.Weight, column: columnOf(name, assume), scalar: framework.IsScalarResourceName(name),
		}
	}
	s.cpuAndMemoryOnly = len(s.specs) == 2 && s.specs[0].name == v1.ResourceCPU && s.specs[1].name == v1.ResourceMemory
	return s
}

// amounts is what a pod is scored with, in the order of the scored resources;
// cpu is in millicores.
type scoredRequests []int64

// Clone returns the same value: nothing changes it.
func (a scoredRequests) Clone() fwk.StateData { return a }

// none reports whether the pod asks for nothing that is scored.
func (a scoredRequests) isZero() bool {
	for _, amount := range a {
		if amount != 0 {
			return false
		}
	}
	return true
}

// amountsOf returns what pod is scored with.
//
// With assume it is NodeResourcesFit that asks, and requests of the pod as a
// whole do not count: in k8s.io/kubernetes/pkg/scheduler/framework/plugins/
// noderesources the scorer of Fit never learns of the gates that Fit itself
// reads, so it goes by the containers' spec alone. BalancedAllocation's does.
func (s scoredResources) requestsOf(pod *v1.Pod) scoredRequests {
	if sum, ok := framework.SumRequests(pod); ok && s.allInColumns() {
		return s.requestsFromSum(&sum)
	}
	var requests v1.ResourceList
	if s.nonZeroRequests {
		requests = resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{
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

// amountsIn returns the same from a sum.
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

// readAmounts reads the note that PreScore left under key, or adds up again
// where a profile has Score without PreScore.
func getPreScoreState(state fwk.CycleState, key fwk.StateKey, s scoredResources, pod *v1.Pod) scoredRequests {
	if note, err := state.Read(key); err == nil {
		if list, ok := note.(scoredRequests); ok {
			return list
		}
	}
	return s.requestsOf(pod)
}

// on returns how much of the ith resource node offers and how much of it is
// taken already. The resource does not count when nothing is offered, or when
// it is scalar and the pod asks for none of it.
func (s scoredResources) nodeAmounts(node fwk.NodeInfo, i int, asked int64) (offered, taken int64, counts bool) {
	spec := &s.specs[i]
	if spec.scalar && asked == 0 {
		return 0, 0, false
	}
	offered = resourceAmount(node.GetAllocatable(), spec.name)
	if offered == 0 {
		return 0, 0, false
	}
	requested := node.GetRequested()
	if s.nonZeroRequests && (spec.name == v1.ResourceCPU || spec.name == v1.ResourceMemory) {
		requested = node.GetNonZeroRequested()
	}
	return offered, resourceAmount(requested, spec.name), true
}
