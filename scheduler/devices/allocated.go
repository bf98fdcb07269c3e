package devices

import (
	"maps"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/berthdev/berth/scheduler/devices/allocation"
)

// allocatedDevices counts the claims that hold each device. The caller's lock guards it.
//
// kube-scheduler has a set instead: there a device that two claims hold, which another
// scheduler or a crash can bring about, is free when one of them lets go. Here it is free
// when both have.
type allocatedDevices struct {
	// devices are held exclusively.
	devices map[structured.DeviceID]int
	// shares are shares of devices. A share has its own ID, so that its capacity is
	// consumed once, even while both an allocation in flight and the written claim hold it.
	shares   map[structured.SharedDeviceID]int
	capacity structured.ConsumedCapacityCollection
	// state is the last result of get, nil after a change.
	state *structured.AllocatedState
	// byPool is the same for package allocation, and sharesOf the number of shares of each
	// device.
	byPool   allocation.Allocated
	sharesOf map[structured.DeviceID]int
}

func newAllocatedDevices() allocatedDevices {
	return allocatedDevices{
		devices: map[structured.DeviceID]int{}, shares: map[structured.SharedDeviceID]int{},
		capacity: structured.NewConsumedCapacityCollection(), sharesOf: map[structured.DeviceID]int{},
	}
}

// changed records that a device is held in another way than before.
func (a *allocatedDevices) changed(id structured.DeviceID) {
	a.state = nil
	held := allocation.Holding{Exclusive: a.devices[id] > 0, Shares: a.sharesOf[id]}
	if capacity, consumed := a.capacity[id]; consumed {
		held.Capacity = capacity.Clone()
	}
	a.byPool = a.byPool.With(id, held)
}

// replace counts the devices of after instead of those of before; nil is none. Devices
// that both hold are held at any moment.
func (a *allocatedDevices) replace(before, after *resourceapi.ResourceClaim) {
	old, current := allocationOf(before), allocationOf(after)
	if old == current {
		return
	}
	a.add(current)
	a.remove(old)
}

func allocationOf(claim *resourceapi.ResourceClaim) *resourceapi.AllocationResult {
	if claim == nil {
		return nil
	}
	return claim.Status.Allocation
}

func (a *allocatedDevices) add(result *resourceapi.AllocationResult) {
	forEachDevice(result, func(id structured.DeviceID, result *resourceapi.DeviceRequestAllocationResult) {
		if result.ShareID == nil {
			if a.devices[id]++; a.devices[id] == 1 {
				a.changed(id)
			}
			return
		}
		share := structured.MakeSharedDeviceID(id, result.ShareID)
		if a.shares[share]++; a.shares[share] == 1 {
			a.sharesOf[id]++
			if result.ConsumedCapacity != nil {
				a.capacity.Insert(structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity))
			}
			a.changed(id)
		}
	})
}

func (a *allocatedDevices) remove(result *resourceapi.AllocationResult) {
	forEachDevice(result, func(id structured.DeviceID, result *resourceapi.DeviceRequestAllocationResult) {
		if result.ShareID == nil {
			if a.devices[id]--; a.devices[id] <= 0 {
				delete(a.devices, id)
				a.changed(id)
			}
			return
		}
		share := structured.MakeSharedDeviceID(id, result.ShareID)
		if a.shares[share]--; a.shares[share] <= 0 {
			delete(a.shares, share)
			if a.sharesOf[id]--; a.sharesOf[id] == 0 {
				delete(a.sharesOf, id)
			}
			if result.ConsumedCapacity != nil {
				a.capacity.Remove(structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity))
			}
			a.changed(id)
		}
	})
}

// holds reports whether all devices of an allocation are held, each wholly or by its share.
func (a *allocatedDevices) holds(result *resourceapi.AllocationResult) bool {
	held := true
	forEachDevice(result, func(id structured.DeviceID, result *resourceapi.DeviceRequestAllocationResult) {
		if result.ShareID == nil {
			held = held && a.devices[id] > 0
			return
		}
		held = held && a.shares[structured.MakeSharedDeviceID(id, result.ShareID)] > 0
	})
	return held
}

// forEachDevice calls do for each device of an allocation, which may be nil. A device
// with admin access is not held: other claims may have it.
func forEachDevice(allocation *resourceapi.AllocationResult, do func(structured.DeviceID, *resourceapi.DeviceRequestAllocationResult)) {
	if allocation == nil {
		return
	}
	for i := range allocation.Devices.Results {
		result := &allocation.Devices.Results[i]
		if result.AdminAccess == nil || !*result.AdminAccess {
			do(structured.MakeDeviceID(result.Driver, result.Pool, result.Device), result)
		}
	}
}

// get returns what is allocated. The result is not changed later, and callers do not
// change it.
func (a *allocatedDevices) get() *structured.AllocatedState {
	if a.state == nil {
		a.state = &structured.AllocatedState{
			AllocatedDevices: sets.KeySet(a.devices), AllocatedSharedDeviceIDs: sets.KeySet(a.shares),
			AggregatedCapacity: a.capacity.Clone(),
		}
	}
	return a.state
}

// list returns the devices of which a claim holds all or a share.
func (a *allocatedDevices) list() sets.Set[structured.DeviceID] {
	list := sets.KeySet(a.devices)
	for share := range maps.Keys(a.shares) {
		list.Insert(share.GetDeviceID())
	}
	return list
}
