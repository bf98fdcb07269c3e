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
