package framework

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Requests used for scoring of a container without requests, so that such pods
// do not gather on one node. Both values are those of
// k8s.io/kubernetes/pkg/scheduler/util.
const (
	// DefaultMilliCPURequest is a tenth of a core.
	DefaultMilliCPURequest int64 = 100
	// DefaultMemoryRequest is 200 MiB, in bytes.
	DefaultMemoryRequest int64 = 200 << 20
)

// PodRequestOptions are the options with which kube-scheduler 1.37 calls
// k8s.io/component-helpers/resource with default feature gates: in-place resize
// of containers and pods and pod-level resources are on, devices as node
// allocatable resources are off.
func PodRequestOptions() resourcehelper.PodResourcesOptions {
	return resourcehelper.PodResourcesOptions{
		UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true,
	}
}

// RunningPodRequests returns the requests of pod by
// k8s.io/component-helpers/resource, resizes included. assumed, which may be
// nil, are the requests of a container that names none.
func RunningPodRequests(pod *v1.Pod, assumed v1.ResourceList) v1.ResourceList {
	options := PodRequestOptions()
	options.UseStatusResources = StatusAffectsRequests(pod)
	options.NonMissingContainerRequests = assumed
	return ComputePodRequests(pod, options)
}

// ComputePodRequests returns the requests of pod by
// k8s.io/component-helpers/resource, and does not change the pod: the library
// adds the overhead to the pod-level amounts in the pod itself where these do
// not fit into an int64.
func ComputePodRequests(pod *v1.Pod, options resourcehelper.PodResourcesOptions) v1.ResourceList {
	if pod.Spec.Resources != nil && pod.Spec.Overhead != nil {
		own := *pod
		own.Spec.Resources = pod.Spec.Resources.DeepCopy()
		own.Status.Resources, own.Status.AllocatedResources = pod.Status.Resources.DeepCopy(), pod.Status.AllocatedResources.DeepCopy()
		pod = &own
	}
	return resourcehelper.PodRequests(pod, options)
}

// StatusAffectsRequests reports whether pod's status can change its requests.
// If not, as for every pending pod, one walk over the containers is enough
// instead of three.
func StatusAffectsRequests(pod *v1.Pod) bool {
	status := &pod.Status
	return len(status.ContainerStatuses) > 0 || len(status.InitContainerStatuses) > 0 ||
		status.Resources != nil || status.AllocatedResources != nil ||
		resourcehelper.IsPodResizeInfeasible(pod)
}

// IsRestartableInitContainer reports whether an init container keeps running
// beside the containers (a sidecar).
func IsRestartableInitContainer(container *v1.Container) bool {
	return container.RestartPolicy != nil && *container.RestartPolicy == v1.ContainerRestartPolicyAlways
}

// podRequests returns the requests of pod, and the cpu in millicores and memory
// in bytes used for scoring.
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

// maxPodRequest is the largest amount that one pod counts for: a pebibyte, or
// more cores than any node has. The sum over 8000 such pods does not overflow.
const maxPodRequest = 1 << 50

// ClampRequest limits one amount, in whole units or millicores, to 0 and
// maxPodRequest. The API server rejects negative requests, but a stored one
// would free resources of its node, and a sum that overflows would make the
// score of the node fail for every other pod.
func ClampRequest(amount int64) int64 { return min(max(amount, 0), maxPodRequest) }

// clamp clamps every amount.
func (r *Resource) clamp() {
	r.MilliCPU, r.Memory, r.EphemeralStorage = ClampRequest(r.MilliCPU), ClampRequest(r.Memory), ClampRequest(r.EphemeralStorage)
	for name, amount := range r.ScalarResources {
		r.ScalarResources[name] = ClampRequest(amount)
	}
}

// defaultRequests returns the requests, for scoring, of a container that names
// none. With pod-level requests they hold only resources that neither the pod
// nor any container names.
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

// requestsAreComplete reports whether every container names cpu and memory and
// no status can change the requests, so that no defaults apply. It saves most
// pods a second walk over their containers.
func requestsAreComplete(pod *v1.Pod) bool {
	if StatusAffectsRequests(pod) {
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

// RequestSum is the sum of the requests of a pod's containers.
type RequestSum struct {
	// MilliCPU is in millicores, the others are in bytes.
	MilliCPU, Memory, EphemeralStorage int64
	// ScoredCPU and ScoredMemory include the defaults for containers without
	// requests.
	ScoredCPU, ScoredMemory int64
}

// SumRequests adds up the requests of a pod: containers and sidecars, or an
// init container with the sidecars before it if that is more
// (k8s.io/component-helpers/resource.PodRequests). It reports false for a pod
// that needs that library: with overhead, pod-level requests, a status that
// affects requests, other resources, amounts that are not whole units, or
// amounts that ClampRequest changes.
func SumRequests(pod *v1.Pod) (RequestSum, bool) {
	var sum RequestSum
	if pod.Spec.Overhead != nil || pod.Spec.Resources != nil || StatusAffectsRequests(pod) {
		return sum, false
	}
	var sidecars, most RequestSum
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if IsRestartableInitContainer(c) {
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

// setMax raises each amount to that of other.
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
		// Rounding each amount is not the same as rounding the sum.
		ok = ok && value == ClampRequest(value) && quantity.Cmp(*resource.NewScaledQuantity(value, scale)) == 0
		return value, value
	}
	cpu, scoredCPU := take(v1.ResourceCPU, resource.Milli, DefaultMilliCPURequest)
	memory, scoredMemory := take(v1.ResourceMemory, 0, DefaultMemoryRequest)
	var storage int64
	if known < len(requests) {
		storage, _ = take(v1.ResourceEphemeralStorage, 0, 0)
	}
	s.MilliCPU += cpu
	s.Memory += memory
	s.EphemeralStorage += storage
	s.ScoredCPU += scoredCPU
	s.ScoredMemory += scoredMemory
	return ok && known == len(requests)
}
