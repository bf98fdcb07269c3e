package devices

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"

	"github.com/berthdev/berth/scheduler/devices/allocation"
	"github.com/berthdev/berth/scheduler/framework"
)

const (
	// recheckEvery is the number of allocations of which one is made by the public
	// allocator too.
	recheckEvery = 64
	// recheckTimeout bounds that: for some claims the public allocator takes minutes.
	recheckTimeout = 100 * time.Millisecond
)

// Allocator returns an allocator for what is allocated, in flight and published now.
func (d *Devices) Allocator() framework.DeviceAllocator {
	d.claims.mu.RLock()
	allocated := d.claims.allocated.byPool
	d.claims.mu.RUnlock()
	return &checkedAllocator{d, allocation.NewAllocator(allocation.Options{Index: d.slices.indexed(), Allocated: allocated, Classes: d.classes})}
}

// checkedAllocator compares some allocations with those of the public allocator. It is
// safe for concurrent use.
type checkedAllocator struct {
	parent *Devices
	referencedAllocator
}

// referencedAllocator is an allocator that can make the public one for the same objects.
type referencedAllocator interface {
	framework.DeviceAllocator
	Reference(ctx context.Context) (structured.Allocator, error)
}

var _ referencedAllocator = &allocation.Allocator{}

// Allocate is as in structured.Allocator. Where the public allocator has another result,
// it returns that.
func (a *checkedAllocator) Allocate(ctx context.Context, node *v1.Node, claims []*resourceapi.ResourceClaim) ([]resourceapi.AllocationResult, error) {
	results, err := a.referencedAllocator.Allocate(ctx, node, claims)
	if err != nil || a.parent.allocatorCalls.Add(1)%recheckEvery != 0 {
		return results, err
	}
	limited, cancel := context.WithTimeout(ctx, recheckTimeout)
	defer cancel()
	reference, err := a.Reference(limited)
	if err != nil {
		return nil, err
	}
	want, err := reference.Allocate(limited, node, claims)
	switch {
	case limited.Err() != nil:
		return results, nil
	case err == nil && allocation.SameResults(want, results):
		return results, nil
	}
	a.parent.options.Log.Error(err, "An allocation of devices is wrong; please report this", "resourceclaims", klog.KObjSlice(claims), "node", node.Name)
	return want, err
}
