package allocation

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
)

// syncIndex makes an index hold the slices of a list and no others, by what has changed.
func syncIndex(x *Index, list []*resourceapi.ResourceSlice) {
	var changed []*resourceapi.ResourceSlice
	listed := map[string]bool{}
	for _, slice := range list {
		listed[slice.Name] = true
		if known := x.slices[slice.Name]; known == nil || known.api != slice {
			changed = append(changed, slice)
		}
	}
	var deleted []string
	for name := range x.slices {
		if !listed[name] {
			deleted = append(deleted, name)
		}
	}
	x.Update(changed, deleted)
}

// allocatedOf returns what a state says.
func allocatedOf(state *structured.AllocatedState) Allocated {
	holdings := map[structured.DeviceID]Holding{}
	for id := range state.AllocatedDevices {
		h := holdings[id]
		h.Exclusive = true
		holdings[id] = h
	}
	for share := range state.AllocatedSharedDeviceIDs {
		h := holdings[share.GetDeviceID()]
		h.Shares++
		holdings[share.GetDeviceID()] = h
	}
	for id, capacity := range state.AggregatedCapacity {
		h := holdings[id]
		h.Capacity = capacity.Clone()
		holdings[id] = h
	}
	var allocated Allocated
	for id, h := range holdings {
		allocated = allocated.With(id, h)
	}
	return allocated
}

// holdingOf returns what is held of a device.
func holdingOf(a Allocated, id structured.DeviceID) Holding {
	return a.in(poolID{id.Driver, id.Pool}).of(id.Device)
}
