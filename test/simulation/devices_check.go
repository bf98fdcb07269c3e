package simulation

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/berthdev/berth/scheduler/framework"
)

// noteDeviceClaims records the claims that the plugins find at the begin of an attempt: those that
// the handler has received.
func (sim *simulation) noteDeviceClaims(pod *v1.Pod) {
	if !sim.hasDevices() {
		return
	}
	known := map[string]types.UID{}
	names, _, _ := deviceClaimsOf(pod)
	for _, name := range names {
		if claim := handled[*resourceapi.ResourceClaim](sim, pod.Namespace+"/"+name); claim != nil {
			known[name] = claim.UID
		}
	}
	sim.devices.known[pod.UID] = known
}

// notePlacedDeviceClaims forgets the claims that were replaced during the attempt.
func (sim *simulation) notePlacedDeviceClaims(pod *v1.Pod) {
	if !sim.hasDevices() {
		return
	}
	known := sim.devices.known[pod.UID]
	maps.DeleteFunc(known, func(name string, uid types.UID) bool {
		claim := handled[*resourceapi.ResourceClaim](sim, pod.Namespace+"/"+name)
		return claim == nil || claim.UID != uid
	})
}

// checkAllocation checks each write of a claim's status by Berth: no other claim has a device that
// the claim gets, and the claim has the finalizer.
func (sim *simulation) checkAllocation(claim *resourceapi.ResourceClaim, status *resourceapi.ResourceClaimStatus, process int) {
	if status.Allocation == nil {
		sim.count("a claim is deallocated")
		if users := sim.podsOnNodesThatReserve(claim); len(users) > 0 {
			sim.failf("device claim %s is deallocated, and %s has it on a node", describe(claim), describe(users[0]))
		}
		return
	}
	if claim.Status.Allocation != nil {
		if !slices.Equal(devicesOf(claim.Status.Allocation), devicesOf(status.Allocation)) {
			sim.failf("device claim %s with %v gets %v", describe(claim), devicesOf(claim.Status.Allocation), devicesOf(status.Allocation))
		}
		sim.count("a claim is reserved for one more pod")
		return
	}
	sim.count("a claim is allocated")
	if process < sim.process {
		sim.count("a claim is allocated by an earlier leader")
	}
	if !slices.Contains(claim.Finalizers, resourceapi.Finalizer) {
		sim.failf("device claim %s is allocated without the finalizer", describe(claim))
	}
	if len(status.ReservedFor) == 0 {
		sim.failf("device claim %s is allocated, and reserved for no pod", describe(claim))
	}
	for _, other := range all[*resourceapi.ResourceClaim](sim.server) {
		for _, device := range devicesOf(other.Status.Allocation) {
			if other.UID != claim.UID && slices.Contains(devicesOf(status.Allocation), device) {
				sim.failf("device claim %s gets device %s, which claim %s has", describe(claim), device, describe(other))
			}
		}
	}
}

// podsOnNodesThatReserve are the live pods with a node for which a claim is reserved.
func (sim *simulation) podsOnNodesThatReserve(claim *resourceapi.ResourceClaim) (users []*v1.Pod) {
	for _, r := range claim.Status.ReservedFor {
		pod := sim.server.pods[claim.Namespace+"/"+r.Name]
		if pod != nil && pod.UID == r.UID && pod.Spec.NodeName != "" && isLivePod(pod) && sim.placedByUs(pod) {
			users = append(users, pod)
		}
	}
	return users
}

// checkDevicesOfBind checks the claims of a pod that was bound, which are those that were known
// when it was placed: each is allocated and reserved for the pod, with devices that the node
// reaches and that are ready.
func (sim *simulation) checkDevicesOfBind(pod *v1.Pod) {
	known := sim.devices.known[pod.UID]
	for _, name := range slices.Sorted(maps.Keys(known)) {
		claim := find[*resourceapi.ResourceClaim](sim.server, pod.Namespace+"/"+name)
		switch {
		case claim == nil || claim.UID != known[name]:
			sim.failf("%s was bound, and its device claim %s was deleted, which the finalizer prevents", describe(pod), name)
			return
		case claim.Status.Allocation == nil:
			sim.failf("%s was bound, and its device claim %s is not allocated", describe(pod), describe(claim))
			return
		case !isReserved(claim, pod):
			sim.failf("%s was bound, and its device claim %s is not reserved for it", describe(pod), describe(claim))
		case !isOnNode(claim, pod.Spec.NodeName):
			sim.failf("%s was bound, and its node does not reach the devices of its claim %s", describe(pod), describe(claim))
		case len(notReady(claim)) > 0:
			sim.failf("%s was bound, and devices of its claim %s are not ready: %v", describe(pod), describe(claim), notReady(claim))
		}
		sim.count("a pod is bound with devices")
		if len(claim.Status.ReservedFor) > 1 {
			sim.count("a pod is bound with devices that another pod has as well")
		}
	}
}

func isReserved(claim *resourceapi.ResourceClaim, pod *v1.Pod) bool {
	return slices.ContainsFunc(claim.Status.ReservedFor, func(r resourceapi.ResourceClaimConsumerReference) bool { return r.UID == pod.UID })
}

// isOnNode says whether the devices of an allocated claim can be reached on a node.
func isOnNode(claim *resourceapi.ResourceClaim, node string) bool {
	selector := claim.Status.Allocation.NodeSelector
	if selector == nil {
		return true
	}
	for _, r := range selector.NodeSelectorTerms[0].MatchFields {
		if !slices.Contains(r.Values, node) {
			return false
		}
	}
	return true
}

// notReady are the devices of a claim that have to become ready and are not.
func notReady(claim *resourceapi.ResourceClaim) (devices []string) {
	for _, result := range claim.Status.Allocation.Devices.Results {
		ready := slices.ContainsFunc(claim.Status.Devices, func(d resourceapi.AllocatedDeviceStatus) bool {
			return d.Pool == result.Pool && d.Device == result.Device &&
				slices.ContainsFunc(d.Conditions, func(c metav1.Condition) bool { return c.Type == "ready" })
		})
		if len(result.BindingConditions) > 0 && !ready {
			devices = append(devices, result.Device)
		}
	}
	return devices
}

// checkDevices checks, where the history is quiescent, that Berth knows each claim as it is, and
// that nothing is in flight any more.
func (sim *simulation) checkDevices() {
	if !sim.hasDevices() || sim.handle == nil {
		return
	}
	devices, err := framework.DevicesOf(sim.handle)
	if err != nil {
		sim.failf("%v", err)
		return
	}
	want := sets.New[structured.DeviceID]()
	for _, claim := range all[*resourceapi.ResourceClaim](sim.server) {
		if is, err := devices.ResourceClaims().Get(claim.Namespace, claim.Name); err != nil || !equality.Semantic.DeepEqual(is, claim) {
			sim.failf("device claim %s is held for %+v (%v), and is %+v", claim.Name, is, err, claim)
		}
		if devices.ResourceClaims().GetPendingAllocation(claim.UID) != nil {
			sim.failf("device claim %s has an allocation in flight", describe(claim))
		}
		if claim.Status.Allocation != nil {
			for _, result := range claim.Status.Allocation.Devices.Results {
				want.Insert(structured.MakeDeviceID(result.Driver, result.Pool, result.Device))
			}
		}
	}
	if is, err := devices.ResourceClaims().ListAllAllocatedDevices(); err != nil || !is.Equal(want) {
		sim.failf("the devices %v are held for allocated (%v), and %v are", is.UnsortedList(), err, want.UnsortedList())
	}
}

// hasUnusableDeviceClaim says that a claim of a pod does not exist, is being deleted or is not for
// the pod, so that the pod may be gated.
func (sim *simulation) hasUnusableDeviceClaim(pod *v1.Pod) bool {
	names, own, ok := deviceClaimsOf(pod)
	return !ok || slices.ContainsFunc(names, func(name string) bool {
		claim := find[*resourceapi.ResourceClaim](sim.server, pod.Namespace+"/"+name)
		return claim == nil || claim.DeletionTimestamp != nil || own[name] && !metav1.IsControlledBy(claim, pod)
	})
}

// devicesRefuse says why a pod cannot be on a node because of its claims.
func (sim *simulation) devicesRefuse(pod *v1.Pod, node *v1.Node) string {
	if !sim.hasDevices() {
		return ""
	}
	if sim.hasUnusableDeviceClaim(pod) {
		return "a claim cannot be used"
	}
	names, _, _ := deviceClaimsOf(pod)
	var toAllocate []*resourceapi.ResourceClaim
	taken := map[string]bool{}
	for _, name := range names {
		claim := find[*resourceapi.ResourceClaim](sim.server, pod.Namespace+"/"+name)
		switch {
		case claim.Status.Allocation == nil:
			toAllocate = append(toAllocate, claim)
		case isOnNode(claim, node.Name) && len(notReady(claim)) == 0:
		case len(claim.Status.ReservedFor) == 0, len(claim.Status.ReservedFor) == 1 && isReserved(claim, pod):
			toAllocate = append(toAllocate, claim) // it is deallocated first
		default:
			return "the node does not reach the devices of a claim"
		}
	}
	for _, claim := range all[*resourceapi.ResourceClaim](sim.server) {
		if !slices.Contains(toAllocate, claim) {
			for _, device := range devicesOf(claim.Status.Allocation) {
				taken[device] = true
			}
		}
	}
	var wanted []*resourceapi.ExactDeviceRequest
	for _, claim := range toAllocate {
		for i := range claim.Spec.Devices.Requests {
			request := claim.Spec.Devices.Requests[i].Exactly
			if find[*resourceapi.DeviceClass](sim.server, request.DeviceClassName) == nil {
				return "a device class does not exist"
			}
			wanted = append(wanted, slices.Repeat([]*resourceapi.ExactDeviceRequest{request}, int(request.Count))...)
		}
	}
	if !sim.canAllocate(wanted, node, taken) {
		return "too few devices are free"
	}
	return ""
}

// canAllocate says whether each request gets a device of its own on a node.
func (sim *simulation) canAllocate(wanted []*resourceapi.ExactDeviceRequest, node *v1.Node, taken map[string]bool) bool {
	if len(wanted) == 0 {
		return true
	}
	for _, slice := range all[*resourceapi.ResourceSlice](sim.server) {
		if slice.Spec.NodeName != nil && *slice.Spec.NodeName != node.Name {
			continue
		}
		for i := range slice.Spec.Devices {
			device := &slice.Spec.Devices[i]
			id := slice.Spec.Pool.Name + "/" + device.Name
			if taken[id] || !sim.suits(wanted[0], slice, device) {
				continue
			}
			taken[id] = true
			if sim.canAllocate(wanted[1:], node, taken) {
				return true
			}
			delete(taken, id)
		}
	}
	return false
}

// suits says whether a request may get a device.
func (sim *simulation) suits(request *resourceapi.ExactDeviceRequest, slice *resourceapi.ResourceSlice, device *resourceapi.Device) bool {
	tainted := len(device.Taints) > 0 || find[*resourceapi.DeviceTaintRule](sim.server, slice.Spec.Pool.Name) != nil
	isLarge := *device.Attributes["size"].StringValue == "large"
	return (!tainted || len(request.Tolerations) > 0) && (request.DeviceClassName == anyDevice || isLarge)
}

// requiredDeviceEvents are what a thousand seeds of histories of devices must have seen.
func requiredDeviceEvents() []string {
	required := []string{
		"a claim is generated", "a claim is allocated", "a claim is deallocated", "a claim is reserved for one more pod",
		"a claim is deleted while an allocation is under way", "a claim with a finalizer is deleted",
		"a reservation ends with its pod", "a reservation is taken back", "a device is ready", "a device is failed",
		"a pod is bound with devices", "a pod is bound with devices that another pod has as well",
		"a late write to a claim by an earlier leader is refused", "a swap meets an allocation under way",
		"a swap", "a swap meets a refused pod", "event FailedScheduling", "event Preempted", "unreserved", "post-bound", leaderReplaced,
	}
	for _, action := range deviceActions {
		required = append(required, action.name)
	}
	for _, verb := range []string{writeClaim, writeClaimStatus} {
		required = append(required, verb+" done", verb+" refused")
		for _, outcome := range outcomes {
			required = append(required, verb+" "+outcome.name)
		}
	}
	// Claims are read after conflicts only.
	return append(required, readClaim+" done", writeClaimStatus+" canceled", "late "+writeClaimStatus+" done", "late "+writeClaimStatus+" refused")
}
