package dynamicresources

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	resourcehelper "k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// extendedClaim returns the claim for the extended resources that DeviceClasses back: that
// of an earlier attempt, or else a template without requests, since which resources are
// devices depends on the node. It returns nil if no class backs a resource of the pod.
func (p *Plugin) extendedClaim(pod *v1.Pod) (claim *resourceapi.ResourceClaim, resources []extendedResource) {
	if !framework.RequestsDevices(pod, p.devices.DeviceClassResolver()) {
		return nil, nil
	}
	resources = p.extendedResourcesOf(pod)
	for _, existing := range p.devices.ControlledClaims(pod.UID) {
		if isExtendedClaimOf(pod, existing) {
			return existing, resources
		}
	}
	return &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: framework.ExtendedClaimName, GenerateName: pod.Name + "-extended-resources-",
		UID:             types.UID(uuid.NewUUID()), // identifies the allocation while it is in flight
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true)}},
		Annotations:     map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"},
	}}, resources
}

// extendedResource is a resource that a pod requests and a class can back.
type extendedResource struct {
	name v1.ResourceName
	// class is the name of the class that backs it, "" if none does.
	class string
}

// extendedResourcesOf returns those that the pod requests, by name.
func (p *Plugin) extendedResourcesOf(pod *v1.Pod) (resources []extendedResource) {
	var requests framework.Resource
	requests.SetMaxResource(framework.ComputePodRequests(pod, resourcehelper.PodResourcesOptions{}))
	for _, name := range slices.Sorted(maps.Keys(requests.ScalarResources)) {
		if requests.ScalarResources[name] == 0 || !framework.IsDeviceResourceName(name) {
			continue
		}
		r := extendedResource{name: name}
		if class := p.devices.DeviceClassResolver().GetDeviceClass(name); class != nil {
			r.class = class.Name
		}
		resources = append(resources, r)
	}
	return resources
}

// isExtendedClaimOf reports whether a claim was created for the extended resources of a pod.
func isExtendedClaimOf(pod *v1.Pod, claim *resourceapi.ResourceClaim) bool {
	return claim.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "true" &&
		slices.ContainsFunc(claim.OwnerReferences, func(owner metav1.OwnerReference) bool {
			return owner.Controller != nil && *owner.Controller && owner.Name == pod.Name && owner.UID == pod.UID
		})
}

// extendedOnNode is what a pod gets as devices on one node.
type extendedOnNode struct {
	// claim is the template with the requests for the node; nil if the pod gets no device
	// for an extended resource.
	claim    *resourceapi.ResourceClaim
	mappings []v1.ContainerExtendedResourceRequest
}

// extendedOn returns what the pod needs on a node: devices for the resources of which the
// node itself has none. A claim of an earlier attempt fits no node; PostFilter deletes it.
func (p *Plugin) extendedOn(data *stateData, pod *v1.Pod, node fwk.NodeInfo) (on extendedOnNode, status *fwk.Status) {
	extended := data.extended()
	if extended == nil {
		return on, nil
	}
	if extended.claim.Name != framework.ExtendedClaimName {
		return on, unresolvable("cannot schedule extended resource claim")
	}
	// which has a byte for each resource, 1 if the pod gets devices for it.
	which, backed := make([]byte, len(data.resources)), 0
	allocatable := node.GetAllocatable().GetScalarResources()
	for i, r := range data.resources {
		onNode, known := allocatable[r.name]
		if r.class != "" && onNode == 0 {
			which[i] = 1
			backed++
		} else if !known {
			return on, unresolvable("cannot fit resource")
		}
	}
	if backed == 0 && len(data.claims) == 1 {
		return on, nil
	}
	return data.extendedFor(pod, which), nil
}

// extendedFor returns the claim with the requests for some of the resources, and makes it
// once: the allocator keeps what it knows of a claim by its pointer.
func (s *stateData) extendedFor(pod *v1.Pod, which []byte) extendedOnNode {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, found := s.extendedClaims[string(which)]; found {
		return known
	}
	classes := map[v1.ResourceName]string{}
	for i, r := range s.resources {
		if which[i] == 1 {
			classes[r.name] = r.class
		}
	}
	on := extendedOnNode{claim: s.extended().claim.DeepCopy()}
	on.claim.Spec.Devices.Requests, on.mappings = deviceRequests(pod, classes)
	if s.extendedClaims == nil {
		s.extendedClaims = map[string]extendedOnNode{}
	}
	s.extendedClaims[string(which)] = on
	return on
}

// deviceRequests returns the requests for the extended resources of all containers, sorted
// by name, and which container uses which of them. classes has the name of the class of
// each resource.
func deviceRequests(pod *v1.Pod, classes map[v1.ResourceName]string) (requests []resourceapi.DeviceRequest, mappings []v1.ContainerExtendedResourceRequest) {
	containers := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
	for _, name := range slices.Sorted(maps.Keys(classes)) {
		r := resourceRequests{name: name, class: classes[name], containers: containers, initContainers: len(pod.Spec.InitContainers)}
		r.build()
		requests, mappings = append(requests, r.requests...), append(mappings, r.mappings...)
	}
	slices.SortFunc(requests, func(a, b resourceapi.DeviceRequest) int { return cmp.Compare(a.Name, b.Name) })
	return requests, mappings
}

// resourceRequests are the requests for one extended resource. Containers that run until
// the pod ends have a request each. Init containers run before those that come after them,
// and use their devices; what the largest of them needs beyond that is one more request.
type resourceRequests struct {
	name           v1.ResourceName
	class          string
	containers     []v1.Container
	initContainers int

	requests []resourceapi.DeviceRequest
	mappings []v1.ContainerExtendedResourceRequest
}

func (r *resourceRequests) build() {
	lasting := make([]*resourceapi.DeviceRequest, len(r.containers))
	for i := range r.containers {
		if r.isLasting(i) {
			if lasting[i] = r.requestOf(i, r.amountOf(i)); lasting[i] != nil {
				r.addMapping(i, lasting[i].Name)
			}
		}
	}
	extra := r.extraRequest(lasting)
	if extra != nil {
		r.requests = append(r.requests, *extra)
	}
	for _, request := range lasting {
		if request != nil {
			r.requests = append(r.requests, *request)
		}
	}
}

// extraRequest returns the request for the init container that needs most beyond the
// devices that it shares; nil if none needs more. All that need more use this one.
func (r *resourceRequests) extraRequest(lasting []*resourceapi.DeviceRequest) (extra *resourceapi.DeviceRequest) {
	var own []int // the mappings for what a container needs beyond
	for i := range r.containers {
		amount := r.amountOf(i)
		if r.isLasting(i) || amount == 0 {
			continue
		}
		for _, shared := range lasting[i:] {
			if shared != nil && amount > 0 {
				r.addMapping(i, shared.Name)
				amount -= shared.Exactly.Count
			}
		}
		if amount <= 0 {
			continue
		}
		own = append(own, len(r.mappings))
		request := r.requestOf(i, amount)
		r.addMapping(i, request.Name)
		if extra == nil || extra.Exactly.Count < amount {
			extra = request
		}
	}
	for _, i := range own {
		r.mappings[i].RequestName = extra.Name
	}
	return extra
}

// isLasting reports whether a container runs until the pod ends.
func (r *resourceRequests) isLasting(i int) bool {
	return i >= r.initContainers || framework.IsRestartableInitContainer(&r.containers[i])
}

func (r *resourceRequests) amountOf(i int) int64 {
	quantity, requested := r.containers[i].Resources.Requests[r.name]
	amount, whole := quantity.AsInt64()
	if !requested || !whole {
		return 0
	}
	return amount
}

// requestOf returns a container's request for some devices; nil for none. Its name has the
// indices of the container and of the resource among all that the container requests.
func (r *resourceRequests) requestOf(container int, count int64) *resourceapi.DeviceRequest {
	if count == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(r.containers[container].Resources.Requests))
	return &resourceapi.DeviceRequest{
		Name: fmt.Sprintf("container-%d-request-%d", container, slices.Index(names, r.name)),
		Exactly: &resourceapi.ExactDeviceRequest{
			DeviceClassName: r.class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count,
		},
	}
}

func (r *resourceRequests) addMapping(container int, request string) {
	r.mappings = append(r.mappings, v1.ContainerExtendedResourceRequest{
		ContainerName: r.containers[container].Name, ResourceName: string(r.name), RequestName: request,
	})
}
