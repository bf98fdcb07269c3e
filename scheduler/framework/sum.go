package framework

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Sum is what the containers of a pod ask for together.
type RequestSum struct {
	// MilliCPU is in thousandths of a core, the others are in bytes.
	MilliCPU, Memory, EphemeralStorage int64
	// ScoredCPU and ScoredMemory count the defaults for each container that
	// names no request.
	ScoredCPU, ScoredMemory int64
}

// SumRequests adds up what a pod asks for: the containers and the sidecars, or the init
// container that asks for more, together with the sidecars before it
// (k8s.io/component-helpers/resource.PodRequests). It reports false for a pod that has
// more to it than most, to which that library has the answer: overhead, requests of the
// pod as a whole, a status that matters, other resources, amounts too fine to be added as
// integers, or out of the bounds of BoundedRequest.
func SumRequests(pod *v1.Pod) (RequestSum, bool) {
	var sum RequestSum
	if pod.Spec.Overhead != nil || pod.Spec.Resources != nil || statusAffectsRequests(pod) {
		return sum, false
	}
	var sidecars, most RequestSum
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			if !sidecars.add(c.Resources.Requests) {
				return sum, false
			}
			most.setMax(sidecars)
			continue
		}
		init := sidecars
		if !init.add(c.Resources.Requests) {
			return sum, false
		}
		most.setMax(init)
	}
	sum = sidecars
	for i := range pod.Spec.Containers {
		if !sum.add(pod.Spec.Containers[i].Resources.Requests) {
			return sum, false
		}
	}
	sum.setMax(most)
	return sum, max(sum.ScoredCPU, sum.ScoredMemory, sum.EphemeralStorage) <= maxPodRequest
}

// raiseTo makes each amount at least that of another sum.
func (s *RequestSum) setMax(other RequestSum) {
	s.MilliCPU = max(s.MilliCPU, other.MilliCPU)
	s.Memory = max(s.Memory, other.Memory)
	s.EphemeralStorage = max(s.EphemeralStorage, other.EphemeralStorage)
	s.ScoredCPU = max(s.ScoredCPU, other.ScoredCPU)
	s.ScoredMemory = max(s.ScoredMemory, other.ScoredMemory)
}

func (s *RequestSum) add(requests v1.ResourceList) bool {
	known, ok := 0, true
	take := func(name v1.ResourceName, scale resource.Scale, assumed int64) (amount, scored int64) {
		quantity, named := requests[name]
		if !named {
			return 0, assumed
		}
		known++
		value := quantity.ScaledValue(scale)
		// Rounding each amount is not rounding their sum.
		ok = ok && value == ClampRequest(value) && quantity.Cmp(*resource.NewScaledQuantity(value, scale)) == 0
		return value, value
	}
	cpu, scoredCPU := take(v1.ResourceCPU, resource.Milli, DefaultMilliCPURequest)
	memory, scoredMemory := take(v1.ResourceMemory, 0, DefaultMemoryRequest)
	storage, _ := take(v1.ResourceEphemeralStorage, 0, 0)
	s.MilliCPU += cpu
	s.Memory += memory
	s.EphemeralStorage += storage
	s.ScoredCPU += scoredCPU
	s.ScoredMemory += scoredMemory
	return ok && known == len(requests)
}
