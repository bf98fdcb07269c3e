package framework

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// What a container without a request of its own is scored as, so that pods
// that ask for nothing do not pile up on one node. Both values are
// k8s.io/kubernetes/pkg/scheduler/util's.
const (
	// DefaultMilliCPURequest is a tenth of a core.
	DefaultMilliCPURequest int64 = 100
	// DefaultMemoryRequest is 200 MiB, in bytes.
	DefaultMemoryRequest int64 = 200 << 20
)

// PodRequestOptions are the options of k8s.io/component-helpers/resource under
// which kube-scheduler 1.37 counts pods, its feature gates at their defaults:
// in-place resize of containers and of pods and pod-level resources are on,
// devices as node allocatable resources are off.
func PodRequestOptions() resourcehelper.PodResourcesOptions {
	return resourcehelper.PodResourcesOptions{
		UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true,
	}
}

// RunningPodRequests returns what pod takes from its node, a resize included,
// by k8s.io/component-helpers/resource. assumed, which may be nil, is what a
// container that names no request is taken to ask for.
func RunningPodRequests(pod *v1.Pod, assumed v1.ResourceList) v1.ResourceList {
	options := PodRequestOptions()
	options.UseStatusResources = statusAffectsRequests(pod)
	options.NonMissingContainerRequests = assumed
	return resourcehelper.PodRequests(pod, options)
}

// statusMatters reports whether pod's status can say anything about its
// resources. Where it cannot, as in every waiting pod, the containers are
// added up once and not three times.
func statusAffectsRequests(pod *v1.Pod) bool {
	status := &pod.Status
	return len(status.ContainerStatuses) > 0 || len(status.InitContainerStatuses) > 0 ||
		status.Resources != nil || status.AllocatedResources != nil ||
		resourcehelper.IsPodResizeInfeasible(pod)
}

// podRequests returns what pod takes from a node, and the cpu in millicores
// and the memory in bytes that it is scored with.
func podRequests(pod *v1.Pod) (request Resource, scoredCPU, scoredMemory int64) {
	if sum, ok := SumRequests(pod); ok {
		request = Resource{MilliCPU: sum.MilliCPU, Memory: sum.Memory, EphemeralStorage: sum.EphemeralStorage}
		return request, sum.ScoredCPU, sum.ScoredMemory
	}
	list := RunningPodRequests(pod, nil)
	request = NewResource(list)
	request.clamp()

	assumed := defaultRequests(pod, list)
	if len(assumed) == 0 || requestsAreComplete(pod) {
		return request, request.MilliCPU, request.Memory
	}
	list = RunningPodRequests(pod, assumed)
	cpu, memory := list[v1.ResourceCPU], list[v1.ResourceMemory]
	return request, ClampRequest(cpu.MilliValue()), ClampRequest(memory.Value())
}

// mostOnePod is the most that one pod counts for: a pebibyte, or as many cores
// as nobody has. Eight thousand such pods can be added up on one node.
const maxPodRequest = 1 << 50

// BoundedRequest keeps one amount, in whole units or millicores, between
// nothing and what one pod may count for. The API server takes no negative
// request; but one that is stored all the same would make room on its node, and
// a sum that overflows would fail the score of the node for every other pod.
func ClampRequest(amount int64) int64 { return min(max(amount, 0), maxPodRequest) }

// bound bounds every amount of a request.
func (r *Resource) clamp() {
	r.MilliCPU, r.Memory, r.EphemeralStorage = ClampRequest(r.MilliCPU), ClampRequest(r.Memory), ClampRequest(r.EphemeralStorage)
	for name, amount := range r.ScalarResources {
		r.ScalarResources[name] = ClampRequest(amount)
	}
}

// assumedRequests returns what each container that names no request is taken
// to ask for. With pod-level requests only a resource that neither the pod nor
// any container names is assumed.
func defaultRequests(pod *v1.Pod, requests v1.ResourceList) v1.ResourceList {
	podLevel := resourcehelper.IsPodLevelRequestsSet(pod)
	assumed := v1.ResourceList{}
	if _, named := requests[v1.ResourceCPU]; !named || !podLevel {
		assumed[v1.ResourceCPU] = *resource.NewMilliQuantity(DefaultMilliCPURequest, resource.DecimalSI)
	}
	if _, named := requests[v1.ResourceMemory]; !named || !podLevel {
		assumed[v1.ResourceMemory] = *resource.NewQuantity(DefaultMemoryRequest, resource.DecimalSI)
	}
	return assumed
}

// requestsAreComplete reports whether nothing can be assumed for pod, because
// every container names cpu and memory and no status says otherwise. It spares
// most pods a second walk over their containers.
func requestsAreComplete(pod *v1.Pod) bool {
	if statusAffectsRequests(pod) {
		return false
	}
	for _, containers := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			requests := containers[i].Resources.Requests
			if _, named := requests[v1.ResourceCPU]; !named {
				return false
			}
			if _, named := requests[v1.ResourceMemory]; !named {
				return false
			}
		}
	}
	return true
}

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
