package noderesources

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	resourcehelper "k8s.io/component-helpers/resource"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

const (
	reasonPods             = "Too many pods"
	reasonCPU              = "Insufficient cpu"
	reasonMemory           = "Insufficient memory"
	reasonEphemeralStorage = "Insufficient ephemeral-storage"
	reasonScalarPrefix     = "Insufficient "
)

// computePodResourceRequest returns the requests of a pending pod. It does not read the
// status, which has no resources before the pod runs.
func computePodResourceRequest(pod *v1.Pod) framework.Resource {
	if sum, ok := framework.SumRequests(pod); ok {
		return framework.Resource{MilliCPU: sum.MilliCPU, Memory: sum.Memory, EphemeralStorage: sum.EphemeralStorage}
	}
	var amounts framework.Resource
	amounts.SetMaxResource(framework.ComputePodRequests(pod, resourcehelper.PodResourcesOptions{}))
	return amounts
}

// podRequest holds the amounts that Filter compares with the free resources of each
// node.
type podRequest struct {
	cpu, memory, ephemeralStorage int64
	// scalars is sorted by name, and so are the reasons.
	scalars []scalarRequest
}

// scalarRequest is the request for one scalar resource, and the reason for rejecting
// nodes without it.
type scalarRequest struct {
	name   v1.ResourceName
	amount int64
	reason string
	// devices says that a DeviceClass backs the resource: on a node that has none of it,
	// DynamicResources allocates devices instead.
	devices bool
}

// newPodRequest returns the requests of pod without the ignored resources.
func (f *Fit) newPodRequest(pod *v1.Pod) *podRequest {
	amounts := computePodResourceRequest(pod)
	request := &podRequest{
		cpu: amounts.MilliCPU, memory: amounts.Memory, ephemeralStorage: amounts.EphemeralStorage,
	}
	if len(amounts.ScalarResources) == 0 {
		return request
	}
	for _, name := range slices.Sorted(maps.Keys(amounts.ScalarResources)) {
		amount := amounts.ScalarResources[name]
		if amount > 0 && !f.ignored.has(name) {
			request.scalars = append(request.scalars,
				scalarRequest{name, amount, reasonScalarPrefix + string(name), f.classes.backs(name) != nil})
		}
	}
	return request
}

// Clone returns the value itself, which never changes.
func (d *podRequest) Clone() fwk.StateData { return d }

// insufficientResources returns the resources of which node has less free than the pod
// requests.
func (d *podRequest) insufficientResources(node fwk.NodeInfo) insufficiency {
	var l insufficiency
	allocatable, requested := node.GetAllocatable(), node.GetRequested()
	if len(node.GetPods()) >= allocatable.GetAllowedPodNumber() {
		l.reasons = append(l.reasons, reasonPods)
	}
	l.add(d.cpu, requested.GetMilliCPU(), allocatable.GetMilliCPU(), reasonCPU)
	l.add(d.memory, requested.GetMemory(), allocatable.GetMemory(), reasonMemory)
	l.add(d.ephemeralStorage, requested.GetEphemeralStorage(), allocatable.GetEphemeralStorage(), reasonEphemeralStorage)
	for i := range d.scalars {
		scalar := &d.scalars[i]
		if scalar.areDevices(allocatable) {
			continue
		}
		l.add(scalar.amount, requested.GetScalarResources()[scalar.name], allocatable.GetScalarResources()[scalar.name], scalar.reason)
	}
	return l
}

// appendShortages appends the same resources with amounts to list.
func (d *podRequest) appendShortages(list []framework.InsufficientResource, node fwk.NodeInfo) []framework.InsufficientResource {
	allocatable, requested := node.GetAllocatable(), node.GetRequested()
	if free := allocatable.GetAllowedPodNumber() - len(node.GetPods()); free < 1 {
		list = append(list, framework.InsufficientResource{Resource: v1.ResourcePods, Requested: 1, Free: int64(free)})
	}
	check := func(name v1.ResourceName, amount, free int64) {
		if amount > 0 && amount > free {
			list = append(list, framework.InsufficientResource{Resource: name, Requested: amount, Free: free})
		}
	}
	check(v1.ResourceCPU, d.cpu, allocatable.GetMilliCPU()-requested.GetMilliCPU())
	check(v1.ResourceMemory, d.memory, allocatable.GetMemory()-requested.GetMemory())
	check(v1.ResourceEphemeralStorage, d.ephemeralStorage, allocatable.GetEphemeralStorage()-requested.GetEphemeralStorage())
	for i := range d.scalars {
		name := d.scalars[i].name
		if d.scalars[i].areDevices(allocatable) {
			continue
		}
		check(name, d.scalars[i].amount, allocatable.GetScalarResources()[name]-requested.GetScalarResources()[name])
	}
	return list
}

// areDevices reports whether the pod gets devices for the resource on a node.
func (s *scalarRequest) areDevices(allocatable fwk.Resource) bool {
	return s.devices && allocatable.GetScalarResources()[s.name] <= 0
}

// insufficiency says why a node has not enough free resources.
type insufficiency struct {
	reasons []string
	// unresolvable is true when the request exceeds what is allocatable on the node.
	unresolvable bool
}

// status returns the status of Filter.
func (l *insufficiency) status() *fwk.Status {
	if len(l.reasons) == 0 {
		return nil
	}
	code := fwk.Unschedulable
	if l.unresolvable {
		code = fwk.UnschedulableAndUnresolvable
	}
	return fwk.NewStatus(code, l.reasons...)
}

// add appends reason if amount is requested and exceeds the free amount.
func (l *insufficiency) add(amount, requested, allocatable int64, reason string) {
	if amount <= 0 || amount <= allocatable-requested {
		return
	}
	l.reasons = append(l.reasons, reason)
	l.unresolvable = l.unresolvable || amount > allocatable
}

// ignoredResources are extended resources that Filter ignores, because another
// component accounts for them. The zero value ignores none.
type ignoredResources struct {
	names, groups sets.Set[string]
}

func newIgnoredResources(args *configv1.NodeResourcesFitArgs) ignoredResources {
	return ignoredResources{
		names:  sets.New(args.IgnoredResources...),
		groups: sets.New(args.IgnoredResourceGroups...),
	}
}

// has reports whether name is ignored. Only extended resources can be ignored.
func (i ignoredResources) has(name v1.ResourceName) bool {
	if len(i.names)+len(i.groups) == 0 || !framework.IsExtendedResourceName(name) {
		return false
	}
	group, _, _ := strings.Cut(string(name), "/")
	return i.names.Has(string(name)) || i.groups.Has(group)
}

// resourceAmount returns the amount of a resource in r; cpu is in millicores.
func resourceAmount(r fwk.Resource, name v1.ResourceName) int64 {
	switch name {
	case v1.ResourceCPU:
		return r.GetMilliCPU()
	case v1.ResourceMemory:
		return r.GetMemory()
	case v1.ResourceEphemeralStorage:
		return r.GetEphemeralStorage()
	default:
		return r.GetScalarResources()[name]
	}
}
