package allocation

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	draapi "k8s.io/dynamic-resource-allocation/api"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	"github.com/berthdev/berth/scheduler/framework"
)

// Reference returns the public allocator for the same slices and allocations. Making it
// costs as much as there are slices and held devices.
func (a *Allocator) Reference(ctx context.Context) (structured.Allocator, error) {
	return structured.NewAllocator(ctx, framework.DeviceFeatures, a.options.Allocated.State(), a.options.Classes, a.view.list(), a.options.Index.expressions.compiler)
}

// list returns all slices by name.
func (v *view) list() (list []*resourceapi.ResourceSlice) {
	v.pools.each(func(_ poolID, p *poolSlices) {
		for _, s := range p.slices {
			list = append(list, s.api)
		}
	})
	slices.SortFunc(list, func(a, b *resourceapi.ResourceSlice) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// State returns a for the public allocator. Shares have made-up IDs, on which no
// allocation depends.
func (a Allocated) State() structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity: structured.NewConsumedCapacityCollection(),
	}
	a.pools.each(func(pool poolID, held *poolHoldings) {
		held.devices.each(func(name draapi.UniqueString, h Holding) {
			id := structured.DeviceID{Driver: pool.driver, Pool: pool.pool, Device: name}
			if h.Exclusive {
				state.AllocatedDevices.Insert(id)
			}
			for i := range h.Shares {
				state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, ptr.To(types.UID(fmt.Sprint(i)))))
			}
			if h.Capacity != nil {
				state.AggregatedCapacity[id] = h.Capacity.Clone()
			}
		})
	})
	return state
}

// SameResults reports whether two results of Allocate are the same, but for the IDs of
// shares, which are random.
func SameResults(a, b []resourceapi.AllocationResult) bool {
	return slices.EqualFunc(a, b, func(a, b resourceapi.AllocationResult) bool {
		return equality.Semantic.DeepEqual(withoutShareIDs(a), withoutShareIDs(b))
	})
}

func withoutShareIDs(result resourceapi.AllocationResult) resourceapi.AllocationResult {
	result.Devices.Results = slices.Clone(result.Devices.Results)
	for i := range result.Devices.Results {
		if r := &result.Devices.Results[i]; r.ShareID != nil {
			r.ShareID = new(types.UID)
		}
	}
	return result
}
