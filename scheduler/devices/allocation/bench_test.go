package allocation

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

const (
	benchNodes   = 5000
	benchDevices = 8
)

// benchCluster is 5,000 nodes with 8 devices each, of which some are allocated.
type benchCluster struct {
	nodes     []*v1.Node
	slices    []*resourceapi.ResourceSlice
	state     structured.AllocatedState
	classes   classes
	compiler  *cel.Cache
	index     *Index
	allocated Allocated
	claims    []*resourceapi.ResourceClaim
	pods      int
}

// newBenchCluster allocates the first devices of each node, as many as held says.
func newBenchCluster(held int) *benchCluster {
	c := &benchCluster{compiler: cel.NewCache(10, cel.Features{EnableConsumableCapacity: true})}
	holdings := map[structured.DeviceID]Holding{}
	for i := range benchNodes {
		node := fmt.Sprintf("node-%04d", i)
		c.nodes = append(c.nodes, fixture.Node(node).Obj())
		slice := fixture.ResourceSlice(node, "gpu.example.com")
		for j := range benchDevices {
			name := fmt.Sprintf("gpu-%d", j)
			slice.Device(name, fixture.Attributes{"model": "a", "index": j, "numa": j / 4, "uuid": node + name}, "memory", "80Gi")
			if j < held {
				holdings[structured.MakeDeviceID("gpu.example.com", node, name)] = Holding{Exclusive: true}
			}
		}
		c.slices = append(c.slices, slice.Obj())
	}
	c.state = stateOf(holdings)
	c.allocated = allocatedOf(&c.state)
	c.classes = classes{"gpu": fixture.DeviceClass("gpu").Selector(`device.driver == "gpu.example.com"`).Obj()}
	c.index = NewIndex(c.compiler)
	c.index.Update(c.slices, nil)
	c.claims = []*resourceapi.ResourceClaim{fixture.ResourceClaim("claim").Request("gpu", "gpu", `device.attributes["gpu.example.com"].model == "a"`).Obj()}
	return c
}

// claim returns a claim of a new pod.
func (c *benchCluster) claim() []*resourceapi.ResourceClaim {
	return []*resourceapi.ResourceClaim{c.claims[0].DeepCopy()}
}

// reference allocates one pod's claim on each of the nodes with the public allocator, and
// builds the allocator as PreFilter does.
func (c *benchCluster) reference(b testing.TB, nodes []*v1.Node) (fits int) {
	allocator, err := structured.NewAllocator(b.Context(), framework.DeviceFeatures, c.state, c.classes, c.slices, c.compiler)
	if err != nil {
		b.Fatal(err)
	}
	claims := c.claim()
	for _, node := range nodes {
		results, err := allocator.Allocate(b.Context(), node, claims)
		if err != nil {
			b.Fatal(err)
		}
		if results != nil {
			fits++
		}
	}
	return fits
}

// indexed does the same with the index, after a change of what is allocated on one node,
// and builds the allocation for one node.
func (c *benchCluster) indexed(b testing.TB, nodes []*v1.Node) (fits int) {
	c.pods++
	changed := structured.MakeDeviceID("gpu.example.com", nodes[c.pods%len(nodes)].Name, "gone")
	c.allocated = c.allocated.With(changed, Holding{Exclusive: !holdingOf(c.allocated, changed).Exclusive})
	allocator := NewAllocator(Options{Index: c.index, Allocated: c.allocated, Classes: c.classes})
	claims := c.claim()
	var winner *v1.Node
	for _, node := range nodes {
		ok, err := allocator.Fits(b.Context(), node, claims)
		if err != nil {
			b.Fatal(err)
		}
		if ok {
			winner = node
			fits++
		}
	}
	if winner != nil {
		if results, err := allocator.Allocate(b.Context(), winner, claims); err != nil || len(results) != 1 {
			b.Fatalf("Allocate: %v, %v", results, err)
		}
	}
	return fits
}

// BenchmarkOnePod measures Filter for one pod, which wants one device, on 5,000 nodes of 8
// devices, of which held are allocated on each. The ratio is that of the public allocator
// to the index. One runs after the other, so that neither pays for the garbage of the
// other.
func BenchmarkOnePod(b *testing.B) {
	for _, held := range []int{0, 4, 7, 8} {
		c := newBenchCluster(held)
		b.Run(fmt.Sprintf("held=%d", held), func(b *testing.B) {
			if want, got := c.reference(b, c.nodes), c.indexed(b, c.nodes); want != got {
				b.Fatalf("the claim fits on %d nodes, want %d", got, want)
			}
			const pods = 20
			var reference, indexed time.Duration
			for b.Loop() {
				reference += timeOf(func() { c.reference(b, c.nodes) })
			}
			runtime.GC()
			for range b.N * pods {
				indexed += timeOf(func() { c.indexed(b, c.nodes) })
			}
			b.ReportMetric(float64(reference.Microseconds())/float64(b.N)/1000, "reference-ms/pod")
			b.ReportMetric(float64(indexed.Microseconds())/float64(b.N)/pods/1000, "index-ms/pod")
			b.ReportMetric(float64(reference)*pods/float64(indexed), "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func timeOf(do func()) time.Duration {
	start := time.Now()
	do()
	return time.Since(start)
}

// BenchmarkIndexed measures the index alone, with allocations of memory.
func BenchmarkIndexed(b *testing.B) {
	for _, held := range []int{0, 4, 7, 8} {
		c := newBenchCluster(held)
		b.Run(fmt.Sprintf("held=%d", held), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.indexed(b, c.nodes)
			}
		})
	}
}

// BenchmarkChange measures one change of what is allocated, and of one slice.
func BenchmarkChange(b *testing.B) {
	c := newBenchCluster(4)
	id := structured.MakeDeviceID("gpu.example.com", "node-0042", "gpu-7")
	b.Run("allocated", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c.allocated.With(id, Holding{Exclusive: true})
		}
	})
	b.Run("slice", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c.index.Update([]*resourceapi.ResourceSlice{c.slices[42]}, nil)
		}
	})
}
