package framework

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
)

// Devices holds ResourceClaims, ResourceSlices and DeviceClasses including what
// the scheduler has allocated and not written yet, and makes every write to
// claims. All Generations share one, so that allocations survive a profile swap.
//
// Returned objects are shared: callers copy before they change one.
type Devices interface {
	fwk.SharedDRAManager

	// Allocator returns an allocator for the devices that are free at this moment. It
	// does not see later changes.
	Allocator() DeviceAllocator
	// ControlledClaims returns the claims whose controller has that UID, by name.
	ControlledClaims(owner types.UID) []*resourceapi.ResourceClaim
	// EndPending is MaybeRemoveClaimPendingAllocation without force. Where other
	// attempts may have seen the allocation, or one that shared it said so, pods
	// that wait for its devices are requeued.
	EndPending(uid types.UID, seen bool) (removed bool)
	// BindClaim writes a claim for a pod that is being bound: the finalizer and
	// allocation, unless allocation is nil, and the pod's reservation. A conflict
	// is retried with the newest claim. It is an error if the claim is being
	// deleted, or was allocated by another writer meanwhile. The written claim
	// stays assumed until the informer delivers it; it is returned also with an
	// error, as far as it was written.
	BindClaim(ctx context.Context, claim *resourceapi.ResourceClaim, allocation *resourceapi.AllocationResult, pod *v1.Pod) (*resourceapi.ResourceClaim, error)
	// UnreserveClaim removes a pod's reservation from a claim.
	UnreserveClaim(ctx context.Context, claim *resourceapi.ResourceClaim, pod *v1.Pod) error
	// DeallocateClaim removes allocation, reservations and device status of a
	// claim. It returns at once; a failed write is logged, and pods of the claim
	// are requeued.
	DeallocateClaim(claim *resourceapi.ResourceClaim)
	// CreateClaim creates the claim for a pod's extended resources, and returns
	// it as the API server stored it. It is assumed at once.
	CreateClaim(ctx context.Context, claim *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error)
	// DeleteClaim removes the scheduler's finalizer from a claim and deletes it.
	DeleteClaim(ctx context.Context, claim *resourceapi.ResourceClaim) error
	// DeleteStaleClaim is DeleteClaim for the claim for extended resources of an
	// earlier attempt. It returns at once; then the pod of the claim is requeued.
	DeleteStaleClaim(claim *resourceapi.ResourceClaim)
	// SetExtendedResourceClaimStatus writes into a pod's status which claim its
	// containers use for extended resources.
	SetExtendedResourceClaimStatus(ctx context.Context, pod *v1.Pod, status *v1.PodExtendedResourceClaimStatus) error
	// AwaitClaims calls done until it returns true or an error: every 5 seconds,
	// and when one of claims changes. It returns done's error, the cause of ctx's
	// end, or context.DeadlineExceeded after limit.
	AwaitClaims(ctx context.Context, limit time.Duration, claims []*resourceapi.ResourceClaim, done func() (bool, error)) error
}

// DeviceAllocator chooses devices for claims. It is safe for concurrent use. Claims must not
// change while it is used.
type DeviceAllocator interface {
	// Allocate is as in structured.Allocator: it is an error if a CEL expression fails,
	// an object is invalid, or the search takes too many steps.
	structured.Allocator
	// Fits reports whether Allocate would return allocations, and returns its error.
	Fits(ctx context.Context, node *v1.Node, claims []*resourceapi.ResourceClaim) (bool, error)
	// CountDevices returns, for each request of claims and each alternative of a request,
	// how many devices it finds among those that node may get, or among all if node is nil.
	// Pools that are incomplete or invalid have none. It returns nil if there are more than
	// 200,000 devices, and for claims that the API server does not accept.
	CountDevices(ctx context.Context, node *v1.Node, claims []*resourceapi.ResourceClaim) []DeviceCounts
}

// DeviceCounts are the devices that one request of a claim finds.
type DeviceCounts struct {
	// Claim is the name of the claim in the pod's spec, or of the extended resource.
	Claim string
	// Request is the name of the request. Alternative is that of one of its
	// alternatives, "" if it has none.
	Request, Alternative string
	Class                string
	// Wanted is how many devices are requested; 0 for all that match the selectors.
	Wanted int
	// Published is how many devices there are, Free how many match all selectors and can
	// be allocated: no claim holds them, their taints are tolerated, and their capacity
	// and counters are enough.
	Published, Free int
	Selectors       []DeviceSelectorCount
}

// DeviceSelectorCount is one selector of a class or a request.
type DeviceSelectorCount struct {
	// OfClass says that the DeviceClass has the selector; otherwise the request has it.
	OfClass bool
	// Expression is the CEL expression.
	Expression string
	// Devices is how many devices match this selector and those before it.
	Devices int
}

// ExtendedClaimName is the name of the claim for a pod's extended resources before PreBind
// creates it. No claim in the API server can have it.
const ExtendedClaimName = "<extended-resources>"

// DeviceFeatures are the features of the allocator of devices that are on by default in
// Kubernetes 1.37.
var DeviceFeatures = structured.Features{
	AdminAccess: true, PrioritizedList: true, PartitionableDevices: true, DeviceTaints: true,
	DeviceBindingAndStatus: true, ConsumableCapacity: true,
}

// DevicesHandle is a Handle with Devices. Every Framework is one.
type DevicesHandle interface {
	fwk.Handle
	// Devices may return nil.
	Devices() Devices
}

// DevicesOf returns the Devices of handle, or an error if handle has none
// because it is not a Framework.
func DevicesOf(handle fwk.Handle) (Devices, error) {
	if lending, ok := handle.(DevicesHandle); ok && lending.Devices() != nil {
		return lending.Devices(), nil
	}
	return nil, fmt.Errorf("handle: is a %T without Devices, want one that has them", handle)
}

// DeviceReporter is a plugin that allocates devices for pods.
type DeviceReporter interface {
	fwk.Plugin
	// GivenDevices returns the devices that the pod of state gets on the node for which
	// Reserve ran, each as name=driver/pool/device. name is that of the claim in the
	// pod's spec, or of the extended resource.
	GivenDevices(state fwk.CycleState, pod *v1.Pod) []string
	// CountDevices returns what the requests of the pod of state find that are not
	// allocated yet, in the whole cluster.
	CountDevices(ctx context.Context, state fwk.CycleState, pod *v1.Pod) []DeviceCounts
}

func (f *Framework) findDeviceReporters() (all []DeviceReporter) {
	for _, plugin := range f.plugins {
		if reporter, ok := plugin.(DeviceReporter); ok && f.InTree(plugin.Name()) {
			all = append(all, reporter)
		}
	}
	return all
}

// GivenDevices returns what the DeviceReporters among the plugins return.
func (f *Framework) GivenDevices(state fwk.CycleState, pod *v1.Pod) (devices []string) {
	for _, reporter := range f.deviceReporters {
		devices = append(devices, reporter.GivenDevices(state, pod)...)
	}
	return devices
}

// CountDevices returns what those DeviceReporters return that are in plugins.
func (f *Framework) CountDevices(ctx context.Context, state fwk.CycleState, pod *v1.Pod, plugins sets.Set[string]) (counts []DeviceCounts) {
	for _, reporter := range f.deviceReporters {
		if plugins.Has(reporter.Name()) {
			counts = append(counts, reporter.CountDevices(ctx, state, pod)...)
		}
	}
	return counts
}

// IsDeviceResourceName reports whether a DeviceClass can back a resource: an extended
// resource, which the class names, or one that has the name of the class.
func IsDeviceResourceName(name v1.ResourceName) bool {
	return strings.HasPrefix(string(name), resourceapi.ResourceDeviceClassPrefix) || IsExtendedResourceName(name)
}

// RequestsDevices reports whether a pod requests a resource that a DeviceClass backs.
func RequestsDevices(pod *v1.Pod, classes fwk.DeviceClassResolver) bool {
	for i := range pod.Spec.Containers {
		if anyBacked(pod.Spec.Containers[i].Resources.Requests, classes) {
			return true
		}
	}
	for i := range pod.Spec.InitContainers {
		if anyBacked(pod.Spec.InitContainers[i].Resources.Requests, classes) {
			return true
		}
	}
	return anyBacked(pod.Spec.Overhead, classes)
}

// anyBacked reports whether a DeviceClass backs one of the requested resources.
func anyBacked(requests v1.ResourceList, classes fwk.DeviceClassResolver) bool {
	// Most pods request only cpu and memory, and looking these up takes less time than
	// visiting the map.
	rest := len(requests)
	if _, ok := requests[v1.ResourceCPU]; ok {
		rest--
	}
	if _, ok := requests[v1.ResourceMemory]; ok {
		rest--
	}
	if rest == 0 {
		return false
	}
	for name, quantity := range requests {
		if strings.Contains(string(name), "/") && !quantity.IsZero() && IsDeviceResourceName(name) && classes.GetDeviceClass(name) != nil {
			return true
		}
	}
	return false
}

// Names, labels and buckets are kube-scheduler's.
var (
	deviceConditionWait = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "scheduler_dra_bindingconditions_wait_duration_seconds",
		Help:    "[ALPHA] Time that PreBind waited for the binding conditions of devices, once for each device of the pod.",
		Buckets: prometheus.ExponentialBuckets(0.1, 2, 14),
	}, []string{"profile", "driver", "status"})
	deviceConditionAllocations = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "scheduler_dra_bindingconditions_allocations_total",
		Help: "[ALPHA] Number of devices with binding conditions that were waited for in an attempt.",
	}, []string{"profile", "driver", "status"})
)

// ObserveBindingConditions records that a pod waited for the binding conditions of the
// devices of claims. status is success, timeout, failure or error.
func ObserveBindingConditions(profile, status string, claims []*resourceapi.ResourceClaim, waited time.Duration) {
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			continue
		}
		for i := range claim.Status.Allocation.Devices.Results {
			device := &claim.Status.Allocation.Devices.Results[i]
			deviceConditionWait.WithLabelValues(profile, device.Driver, status).Observe(waited.Seconds())
			if len(device.BindingConditions) > 0 {
				deviceConditionAllocations.WithLabelValues(profile, device.Driver, status).Inc()
			}
		}
	}
}
