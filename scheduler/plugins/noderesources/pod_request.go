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

// requestOf returns what a waiting pod requests. Its status is not read: there
// is nothing in it before the pod runs.
func computePodResourceRequest(pod *v1.Pod) framework.Resource {
	if sum, ok := framework.SumRequests(pod); ok {
		return framework.Resource{MilliCPU: sum.MilliCPU, Memory: sum.Memory, EphemeralStorage: sum.EphemeralStorage}
	}
	var request framework.Resource
	request.SetMaxResource(resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}))
	return request
}

// demand is what Filter looks for on each node.
type podRequest struct {
	cpu, memory, ephemeralStorage int64
	// scalars is in order of name, so that reasons are.
	scalars []scalarRequest
}

type scalarRequest struct {
	name   v1.ResourceName
	amount int64
	reason string
}

// newDemand leaves out what nobody asks for and what ignored names.
func newPodRequest(pod *v1.Pod, ignored ignoredResources) *podRequest {
	request := computePodResourceRequest(pod)
	wants := &podRequest{
		cpu: request.MilliCPU, memory: request.Memory, ephemeralStorage: request.EphemeralStorage,
	}
	for _, name := range slices.Sorted(maps.Keys(request.ScalarResources)) {
		amount := request.ScalarResources[name]
		if amount > 0 && !ignored.has(name) {
			wants.scalars = append(wants.scalars,
				scalarRequest{name: name, amount: amount, reason: reasonScalarPrefix + string(name)})
		}
	}
	return wants
}

// Clone returns the same value: nothing changes it.
func (d *podRequest) Clone() fwk.StateData { return d }

// lackOn says what node has too little of.
func (d *podRequest) insufficientResources(node fwk.NodeInfo) insufficiency {
	var l insufficiency
	offered, taken := node.GetAllocatable(), node.GetRequested()
	if len(node.GetPods()) >= offered.GetAllowedPodNumber() {
		l.reasons = append(l.reasons, reasonPods)
	}
	l.add(d.cpu, taken.GetMilliCPU(), offered.GetMilliCPU(), reasonCPU)
	l.add(d.memory, taken.GetMemory(), offered.GetMemory(), reasonMemory)
	l.add(d.ephemeralStorage, taken.GetEphemeralStorage(), offered.GetEphemeralStorage(), reasonEphemeralStorage)
	for i := range d.scalars {
		scalar := &d.scalars[i]
		l.add(scalar.amount, taken.GetScalarResources()[scalar.name], offered.GetScalarResources()[scalar.name], scalar.reason)
	}
	return l
}

// shortOn appends the same to list, in amounts.
func (d *podRequest) appendShortages(list []framework.InsufficientResource, node fwk.NodeInfo) []framework.InsufficientResource {
	offered, taken := node.GetAllocatable(), node.GetRequested()
	if free := offered.GetAllowedPodNumber() - len(node.GetPods()); free < 1 {
		list = append(list, framework.InsufficientResource{Resource: v1.ResourcePods, Requested: 1, Free: int64(free)})
	}
	check := func(name v1.ResourceName, amount, free int64) {
		if amount > 0 && amount > free {
			list = append(list, framework.InsufficientResource{Resource: name, Requested: amount, Free: free})
		}
	}
	check(v1.ResourceCPU, d.cpu, offered.GetMilliCPU()-taken.GetMilliCPU())
	check(v1.ResourceMemory, d.memory, offered.GetMemory()-taken.GetMemory())
	check(v1.ResourceEphemeralStorage, d.ephemeralStorage, offered.GetEphemeralStorage()-taken.GetEphemeralStorage())
	for i := range d.scalars {
		name := d.scalars[i].name
		check(name, d.scalars[i].amount, offered.GetScalarResources()[name]-taken.GetScalarResources()[name])
	}
	return list
}

// lack is why a node has no room.
type insufficiency struct {
	reasons []string
	// ofWholeNode is true when the node is too small even when empty.
	unresolvable bool
}

// status is what Filter answers.
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

// check notes reason when amount is asked for and more than is left.
func (l *insufficiency) add(amount, taken, offered int64, reason string) {
	if amount <= 0 || amount <= offered-taken {
		return
	}
	l.reasons = append(l.reasons, reason)
	l.unresolvable = l.unresolvable || amount > offered
}

// ignoredResources are vendors' resources that Filter does not look at,
// because someone else accounts for them. The zero value ignores nothing.
type ignoredResources struct {
	names, groups sets.Set[string]
}

func newIgnoredResources(args *configv1.NodeResourcesFitArgs) ignoredResources {
	return ignoredResources{
		names:  sets.New(args.IgnoredResources...),
		groups: sets.New(args.IgnoredResourceGroups...),
	}
}

// has reports whether name is ignored. Only extended resources can be.
func (i ignoredResources) has(name v1.ResourceName) bool {
	if len(i.names)+len(i.groups) == 0 || !framework.IsExtendedResourceName(name) {
		return false
	}
	group, _, _ := strings.Cut(string(name), "/")
	return i.names.Has(string(name)) || i.groups.Has(group)
}

// amountOf returns how much of a named resource r has, cpu in millicores.
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
