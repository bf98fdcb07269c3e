package allocation

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/berthdev/berth/test/support/fixture"
)

func TestAChangedSliceConcernsOnlyItsNodeAndPool(t *testing.T) {
	a := newTestAllocator(gpus("node-a", 2).Obj(), gpus("node-b", 2).Obj())
	index := a.options.Index
	nodeA, nodeB := fixture.Node("node-a").Obj(), fixture.Node("node-b").Obj()
	claims := claimsOf(fixture.ResourceClaim("a").Request("r", "gpu"))
	for _, node := range []*v1.Node{nodeA, nodeB} {
		if fits, err := a.Fits(t.Context(), node, claims); !fits || err != nil {
			t.Fatalf("Fits returns %v, %v, want true", fits, err)
		}
	}
	gather := func(node *v1.Node) *nodePools { return index.gather(index.now(), node, &atomic.Pointer[nodeSlot]{}) }
	beforeA, beforeB := gather(nodeA), gather(nodeB)
	index.Update([]*resourceapi.ResourceSlice{gpus("node-a", 3).Obj()}, nil)
	if gather(nodeA) == beforeA {
		t.Error("the pools of the changed slice's node are as before, want them built anew")
	}
	if gather(nodeB) != beforeB {
		t.Error("the pools of another node were built anew")
	}
	expression := a.plan.Load().claims[0].requests[0].alternatives[0].selectors[0].expression
	sliceA, sliceB := index.slices["gpu.example.com-node-a"], index.slices["gpu.example.com-node-b"]
	if expression.verdictsOf(sliceB).words[0].Load() == 0 {
		t.Error("the devices of another slice have no verdict any more")
	}
	if expression.verdictsOf(sliceA).words[0].Load() != 0 {
		t.Error("the devices of the new version have a verdict without having been evaluated")
	}
}

func TestAnAllocatorKeepsTheSlicesThatItStartedWith(t *testing.T) {
	before := newTestAllocator(gpus("node", 1).Obj())
	index := before.options.Index
	syncIndex(index, nil)
	after := NewAllocator(before.options)
	claims := claimsOf(fixture.ResourceClaim("a").Request("r", "gpu"))
	node := fixture.Node("node").Obj()
	for _, test := range []struct {
		allocator *Allocator
		want      bool
	}{{before, true}, {after, false}, {before, true}} {
		if fits, err := test.allocator.Fits(t.Context(), node, claims); fits != test.want || err != nil {
			t.Errorf("Fits returns %v, %v, want %v", fits, err, test.want)
		}
	}
}

func TestANodeWhoseLabelsChangeGetsOtherDevices(t *testing.T) {
	a := newTestAllocator(gpus("", 1).NodeSelector("zone", "1").Obj())
	claims := claimsOf(fixture.ResourceClaim("a").Request("r", "gpu"))
	for _, zone := range []string{"1", "2", "1"} {
		node := fixture.Node("node").Label("zone", zone).Obj()
		if fits, err := a.Fits(t.Context(), node, claims); fits != (zone == "1") || err != nil {
			t.Errorf("zone %s: Fits returns %v, %v, want %v", zone, fits, err, zone == "1")
		}
	}
}

func TestTheIndexForgetsWhatIsGone(t *testing.T) {
	a := newTestAllocator(gpus("node-a", 1).Obj(), gpus("", 1).Obj())
	index := a.options.Index
	index.Update(nil, []string{"gpu.example.com-node-a", "gpu.example.com-all", "unknown"})
	got := []int{len(index.slices), len(index.current.shared), index.current.local.count, index.current.pools.count, len(index.freeSlots)}
	if diff := cmp.Diff([]int{0, 0, 0, 0, 2}, got); diff != "" {
		t.Errorf("slices, shared, nodes, pools, free slots (-want,+got):\n%s", diff)
	}
}

func TestATableIsAMapThatDoesNotChange(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var current table[string, int]
	want := map[string]int{}
	var olds []table[string, int]
	var wants []map[string]int
	for step := range 3000 {
		key := fmt.Sprint(random.IntN(300))
		if random.IntN(3) == 0 {
			current = current.without(key)
			delete(want, key)
		} else {
			current = current.with(key, step)
			want[key] = step
		}
		if step%500 == 0 {
			olds, wants = append(olds, current), append(wants, maps.Clone(want))
		}
	}
	olds, wants = append(olds, current), append(wants, want)
	for i := range olds {
		got := map[string]int{}
		for key := range 300 {
			if value, found := olds[i].get(fmt.Sprint(key)); found {
				got[fmt.Sprint(key)] = value
			}
		}
		if diff := cmp.Diff(wants[i], got); diff != "" || olds[i].count != len(got) {
			t.Errorf("version %d with count %d (-want,+got):\n%s", i, olds[i].count, diff)
		}
	}
}

func TestAllocatedIsChangedByDeltas(t *testing.T) {
	g := newGenerator(7)
	var current Allocated
	want := map[structured.DeviceID]Holding{}
	for range 2000 {
		id := structured.MakeDeviceID(testDriver, fmt.Sprint("pool-", g.IntN(40)), fmt.Sprint("dev-", g.IntN(8)))
		h := Holding{}
		if g.one(2) {
			h = g.holding(&resourceapi.Device{Name: "d"})
			want[id] = h
		} else {
			delete(want, id)
		}
		current = current.With(id, h)
	}
	state := stateOf(want)
	fromState := allocatedOf(&state)
	for pool := range 40 {
		for device := range 8 {
			id := structured.MakeDeviceID(testDriver, fmt.Sprint("pool-", pool), fmt.Sprint("dev-", device))
			if diff := cmp.Diff(want[id], holdingOf(current, id)); diff != "" {
				t.Errorf("%s after deltas (-want,+got):\n%s", id, diff)
			}
			if diff := cmp.Diff(want[id], holdingOf(fromState, id)); diff != "" {
				t.Errorf("%s of a state (-want,+got):\n%s", id, diff)
			}
		}
	}
}

// Other shapes of requests may take the place of one while a search uses it.
func TestUsableDevicesOfAReplacedShapeAreFoundAgain(t *testing.T) {
	a := newTestAllocator(gpus("node", 4).Obj())
	s, err := a.solve(t.Context(), fixture.Node("node").Obj(), claimsOf(fixture.ResourceClaim("a").Request("r", "gpu").Count(2)))
	if s == nil || err != nil {
		t.Fatalf("there is no solution: %v", err)
	}
	for i := range s.pools.pools[0].usable {
		s.pools.pools[0].usable[i].Store(nil)
	}
	var names []string
	for _, d := range s.usableIn(&s.plan.claims[0].requests[0].alternatives[0], 0, 2).devices {
		names = append(names, d.api.Name)
	}
	if diff := cmp.Diff([]string{"gpu-00", "gpu-01", "gpu-02"}, names); diff != "" {
		t.Errorf("usable devices after two that are known (-want,+got):\n%s", diff)
	}
}
