package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

// deviceGenerator draws a cluster with devices, and pods with claims.
type deviceGenerator struct {
	*rand.Rand
	version   int
	allClaims []*resourceapi.ResourceClaim
	allSlices []*resourceapi.ResourceSlice
	covered   map[string]int
	// extended says that classes back extended resources. Then no device has binding
	// conditions, for which PreBind would wait.
	extended bool
	// extendedPod says that the last pod requests extended resources.
	extendedPod bool
}

func (g *deviceGenerator) chance(percent int) bool { return g.IntN(100) < percent }

func one[T any](g *deviceGenerator, of ...T) T { return of[g.IntN(len(of))] }

// nextVersion returns a resource version that is newer than all others.
func (g *deviceGenerator) nextVersion() string { g.version++; return strconv.Itoa(g.version) }

const (
	gpuDriver = "gpu.example.com"
	nicDriver = "nic.example.com"
)

// selectors are CEL expressions for devices; the last one fails on every device.
var selectors = []string{
	`device.attributes["gpu.example.com"].model == "a"`,
	`device.attributes["gpu.example.com"].model == "b"`,
	`device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) > 0`,
	`device.attributes["gpu.example.com"].numa < 1`,
	`device.attributes["gpu.example.com"].fast`,
	`device.attributes["gpu.example.com"].driver.isGreaterThan(semver("1.5.0"))`,
	`device.attributes["gpu.example.com"].missing == "a"`,
}

func (g *deviceGenerator) classes() []*resourceapi.DeviceClass {
	return []*resourceapi.DeviceClass{
		g.gpuClass(),
		fixture.DeviceClass("large").Selector(`device.driver == "gpu.example.com" && device.capacity["gpu.example.com"].memory.compareTo(quantity("80Gi")) >= 0`).Obj(),
		fixture.DeviceClass("nic").Selector(`device.driver == "nic.example.com"`).Obj(),
		fixture.DeviceClass("any").Obj(),
	}
}

func (g *deviceGenerator) gpuClass() *resourceapi.DeviceClass {
	b := fixture.DeviceClass("gpu").Selector(`device.driver == "gpu.example.com"`)
	if g.extended {
		b.ExtendedResource(cardResource)
	}
	return b.Obj()
}

func (g *deviceGenerator) nodes() (nodes []fwk.NodeInfo) {
	for i := range 2 + g.IntN(5) {
		info := framework.NewNodeInfo()
		node := fixture.Node(fmt.Sprint("n", i)).Label("rack", fmt.Sprint("r", i%2))
		if g.extended && g.chance(20) {
			node.Capacity(cardResource, one(g, "0", "4"))
		}
		info.SetNode(node.Obj())
		nodes = append(nodes, info)
	}
	return nodes
}

func (g *deviceGenerator) slices(nodes []fwk.NodeInfo) []*resourceapi.ResourceSlice {
	for _, node := range nodes {
		name := node.Node().Name
		switch g.IntN(10) {
		case 0: // no devices
		case 1:
			g.add(g.partitions(name))
		case 2, 3:
			g.add(g.shareable(name))
		case 4: // a pool of two slices, which is incomplete at times
			g.add(g.gpus(fixture.ResourceSlice(name, gpuDriver).Name(name+"-0").Pool(name, 1, 2), 1+g.IntN(3)))
			if g.chance(70) {
				g.add(g.gpus(fixture.ResourceSlice(name, gpuDriver).Name(name+"-1").Pool(name, 1, 2), 1+g.IntN(3)))
			}
		default:
			g.add(g.gpus(fixture.ResourceSlice(name, gpuDriver), 1+g.IntN(5)))
		}
	}
	nics := fixture.ResourceSlice("", nicDriver)
	if g.chance(50) {
		nics = nics.Pool("rack", 1, 1).NodeSelector("rack", "r0")
	}
	for i := range g.IntN(5) {
		nics.Device(fmt.Sprint("nic-", i), fixture.Attributes{"index": i})
	}
	g.add(nics)
	return g.allSlices
}

func (g *deviceGenerator) add(b *fixture.ResourceSliceBuilder) {
	slice := b.Obj()
	slice.ResourceVersion = g.nextVersion()
	g.allSlices = append(g.allSlices, slice)
}

func (g *deviceGenerator) gpus(b *fixture.ResourceSliceBuilder, n int) *fixture.ResourceSliceBuilder {
	for i := range n {
		name := b.Obj().Name + "-" + strconv.Itoa(i)
		b.Device(strings.ReplaceAll(name, ".", "-"), fixture.Attributes{
			"model": one(g, "a", "b"), "numa": g.IntN(2), "fast": g.chance(50), "driver": fixture.Version(one(g, "1.4.0", "2.0.0")),
		}, "memory", one(g, "40Gi", "80Gi"))
		if g.chance(15) {
			g.covered["tainted devices"]++
			b.Taint("maintenance", "", one(g, resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute))
		}
		if !g.extended && g.chance(5) {
			b.BindingConditions("ready", "failed")
		}
	}
	return b
}

// shareable returns devices of which several claims can have a share.
func (g *deviceGenerator) shareable(node string) *fixture.ResourceSliceBuilder {
	b := g.gpus(fixture.ResourceSlice(node, gpuDriver), 1+g.IntN(2))
	return b.Mutate(func(s *resourceapi.ResourceSlice) {
		for i := range s.Spec.Devices {
			s.Spec.Devices[i].AllowMultipleAllocations = new(true)
		}
	})
}

// partitions returns devices that share the counters of one card. The counters are in a
// slice of their own.
func (g *deviceGenerator) partitions(node string) *fixture.ResourceSliceBuilder {
	g.covered["partitions"]++
	g.add(fixture.ResourceSlice(node, gpuDriver).Name(node+"-counters").Pool(node, 1, 2).SharedCounters("card", "memory", "80Gi"))
	b := fixture.ResourceSlice(node, gpuDriver).Name(node+"-partitions").Pool(node, 1, 2)
	for i, size := range []string{"80Gi", "40Gi", "40Gi", "20Gi"} {
		b.Device(fmt.Sprint(node, "-part-", i), fixture.Attributes{"model": "a", "numa": 0, "fast": true, "driver": fixture.Version("2.0.0")}, "memory", size).
			Consumes("card", "memory", size)
	}
	return b
}

// pod returns a pod with one or two claims, and those of them that are new.
func (g *deviceGenerator) pod(n int) (*v1.Pod, []*resourceapi.ResourceClaim) {
	b := fixture.Pod(fmt.Sprint("p", n))
	var created []*resourceapi.ResourceClaim
	least := 1
	if g.extendedPod = g.requestExtended(b); g.extendedPod {
		least = 0
	}
	for i := range least + g.IntN(2) {
		if len(g.allClaims) > 0 && g.chance(15) {
			if shared := one(g, g.allClaims...); len(shared.OwnerReferences) == 0 {
				g.covered["shared claims"]++
				b.ResourceClaim(shared.Name)
				continue
			}
		}
		claim := g.claim(fmt.Sprint("c", n, "-", i))
		created, g.allClaims = append(created, claim), append(g.allClaims, claim)
		b.ResourceClaim(claim.Name)
	}
	pod := b.Obj()
	// A pod names a claim once.
	pod.Spec.ResourceClaims = slices.CompactFunc(pod.Spec.ResourceClaims, func(a, b v1.PodResourceClaim) bool { return *a.ResourceClaimName == *b.ResourceClaimName })
	return pod, created
}

func (g *deviceGenerator) claim(name string) *resourceapi.ResourceClaim {
	b := fixture.ResourceClaim(name)
	for i := range 1 + g.IntN(2) {
		request := fmt.Sprint("r", i)
		if g.chance(20) {
			g.covered["with a prioritized list"]++
			b.RequestFirst(request, fixture.SubRequest("best", one(g, "large", "gpu", "nic"), int64(1+g.IntN(3)), g.selectors()...), fixture.SubRequest("good", one(g, "gpu", "any"), 1, g.selectors()...))
			continue
		}
		b.Request(request, one(g, "gpu", "gpu", "gpu", "large", "nic", "any"), g.selectors()...)
		switch g.IntN(12) {
		case 0:
			g.covered["all devices"]++
			b.All()
		case 1:
			g.covered["with admin access"]++
			b.AdminAccess()
		case 2, 3:
			b.Count(int64(2 + g.IntN(2)))
		case 4, 5:
			g.covered["shares of a device"]++
			b.Capacity("memory", one(g, "10Gi", "30Gi"))
		}
		if g.chance(30) {
			b.Tolerates(one(g, "", "maintenance"), one(g, resourceapi.DeviceTaintEffectNone, resourceapi.DeviceTaintEffectNoSchedule))
		}
	}
	if g.chance(20) {
		g.covered["with a matching attribute"]++
		b.MatchAttribute("gpu.example.com/" + one(g, "model", "numa"))
	}
	claim := b.Obj()
	claim.ResourceVersion = g.nextVersion()
	return claim
}

// selectors returns up to two expressions for devices of gpuDriver. One in fifty fails.
func (g *deviceGenerator) selectors() (list []string) {
	for range g.IntN(3) {
		n := len(selectors) - 1
		if g.chance(2) {
			n++
		}
		guard := `device.driver == "gpu.example.com" && `
		list = append(list, guard+selectors[g.IntN(n)])
	}
	return list
}

// addExtended returns a newer version of a claim for extended resources.
func (g *deviceGenerator) addExtended(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	g.allClaims = append(g.allClaims, claim)
	return g.change(claim.Name, func(*resourceapi.ResourceClaim) {})
}

// write returns a claim as PreBind writes it.
func (g *deviceGenerator) write(name string, pod *v1.Pod, allocation *resourceapi.AllocationResult) *resourceapi.ResourceClaim {
	return g.change(name, func(c *resourceapi.ResourceClaim) {
		if allocation != nil {
			c.Status.Allocation = allocation
		}
		c.Status.ReservedFor = append(c.Status.ReservedFor, fixture.Consumer(pod))
	})
}

// deallocate returns an allocated claim without its allocation, at times.
func (g *deviceGenerator) deallocate() *resourceapi.ResourceClaim {
	if !g.chance(35) {
		return nil
	}
	var allocated []string
	for _, claim := range g.allClaims {
		if claim.Status.Allocation != nil {
			allocated = append(allocated, claim.Name)
		}
	}
	if len(allocated) == 0 {
		return nil
	}
	return g.change(one(g, allocated...), func(c *resourceapi.ResourceClaim) { c.Status = resourceapi.ResourceClaimStatus{} })
}

func (g *deviceGenerator) change(name string, edit func(*resourceapi.ResourceClaim)) *resourceapi.ResourceClaim {
	i := slices.IndexFunc(g.allClaims, func(c *resourceapi.ResourceClaim) bool { return c.Name == name })
	claim := g.allClaims[i].DeepCopy()
	edit(claim)
	claim.ResourceVersion = g.nextVersion()
	g.allClaims[i] = claim
	return claim
}

// changeSlice returns a slice with one device less, or with a taint, at times.
func (g *deviceGenerator) changeSlice() *resourceapi.ResourceSlice {
	if !g.chance(10) {
		return nil
	}
	i := g.IntN(len(g.allSlices))
	slice := g.allSlices[i].DeepCopy()
	if len(slice.Spec.Devices) == 0 {
		return nil
	}
	if g.chance(50) {
		slice.Spec.Devices = slice.Spec.Devices[1:]
	} else {
		slice.Spec.Devices[0].Taints = []resourceapi.DeviceTaint{{Key: "maintenance", Effect: resourceapi.DeviceTaintEffectNoSchedule, TimeAdded: &metav1.Time{}}}
	}
	slice.ResourceVersion = g.nextVersion()
	g.allSlices[i] = slice
	return slice
}

// count counts what a verdict covers.
func (g *deviceGenerator) count(v *verdict) {
	fits := false
	for _, reason := range v.Nodes {
		switch {
		case reason == "":
			fits = true
		case strings.HasPrefix(reason, "Error"):
			g.covered["errors"]++
		default:
			g.covered["nodes refused"]++
		}
	}
	switch {
	case v.Extended != nil:
		g.covered["extended resources given"]++
	case g.extendedPod && fits:
		g.covered["extended resources of the node itself"]++
	case g.extendedPod:
		g.covered["extended resources refused"]++
	}
	if fits {
		g.covered["pods that fit"]++
	} else {
		g.covered["pods that fit nowhere"]++
	}
	for _, allocation := range v.Allocations {
		if allocation == nil {
			continue
		}
		for i := range allocation.Devices.Results {
			if allocation.Devices.Results[i].ShareID != nil {
				g.covered["shares that were given"]++
			}
		}
	}
}
