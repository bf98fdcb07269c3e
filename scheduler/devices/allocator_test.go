package devices

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

// randomAllocation has devices, shares of devices, and devices with admin access.
func randomAllocation(random *rand.Rand) *resourceapi.AllocationResult {
	result := &resourceapi.AllocationResult{}
	for range 1 + random.IntN(3) {
		device := resourceapi.DeviceRequestAllocationResult{Driver: "d", Pool: fmt.Sprint("pool-", random.IntN(3)), Device: fmt.Sprint("dev-", random.IntN(4))}
		switch random.IntN(4) {
		case 0:
			device.AdminAccess = new(true)
		case 1, 2:
			device.ShareID = ptr.To(types.UID(fmt.Sprint("share-", random.IntN(1000))))
			if random.IntN(3) > 0 {
				device.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"memory": *resource.NewQuantity(int64(random.IntN(3)), resource.DecimalSI)}
			}
		}
		result.Devices.Results = append(result.Devices.Results, device)
	}
	return result
}

func TestHoldingsByPoolAreThoseOfTheState(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	allocated := newAllocatedDevices()
	var held []*resourceapi.AllocationResult
	for step := range 5000 {
		if len(held) > 0 && random.IntN(2) == 0 {
			i := random.IntN(len(held))
			allocated.remove(held[i])
			held = append(held[:i], held[i+1:]...)
		} else if len(held) < 20 {
			held = append(held, randomAllocation(random))
			allocated.add(held[len(held)-1])
		}
		want, got := allocated.get(), allocated.byPool.State()
		if !want.AllocatedDevices.Equal(got.AllocatedDevices) || !equality.Semantic.DeepEqual(want.AggregatedCapacity, got.AggregatedCapacity) {
			t.Fatalf("step %d: the holdings by pool are %v, want %v", step, got, *want)
		}
		shares := func(state *structured.AllocatedState) map[structured.DeviceID]int {
			counts := map[structured.DeviceID]int{}
			for share := range state.AllocatedSharedDeviceIDs {
				counts[share.GetDeviceID()]++
			}
			return counts
		}
		if diff := cmp.Diff(shares(want), shares(&got)); diff != "" {
			t.Fatalf("step %d: shares (-want,+got):\n%s", step, diff)
		}
	}
}

// fakeAllocator returns one device; its reference another one.
type fakeAllocator struct {
	framework.DeviceAllocator
	device    string
	reference *fakeAllocator
}

func (f *fakeAllocator) Allocate(context.Context, *v1.Node, []*resourceapi.ResourceClaim) ([]resourceapi.AllocationResult, error) {
	return []resourceapi.AllocationResult{{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{Device: f.device}}}}}, nil
}

func (f *fakeAllocator) Reference(context.Context) (structured.Allocator, error) {
	return f.reference, nil
}

func TestOneOf64AllocationsIsThatOfTheReference(t *testing.T) {
	a := &checkedAllocator{New(Options{}), &fakeAllocator{device: "wrong", reference: &fakeAllocator{device: "right"}}}
	counts := map[string]int{}
	for range 2 * recheckEvery {
		results, err := a.Allocate(t.Context(), fixture.Node("node").Obj(), nil)
		if err != nil {
			t.Fatal(err)
		}
		counts[results[0].Devices.Results[0].Device]++
	}
	if diff := cmp.Diff(map[string]int{"wrong": 2*recheckEvery - 2, "right": 2}, counts); diff != "" {
		t.Errorf("devices (-want,+got):\n%s", diff)
	}
}
