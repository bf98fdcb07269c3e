package generate

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berthdev/berth/scheduler/sandbox/log"
	"github.com/berthdev/berth/test/support/fixture"
)

// devices are the ResourceClaims and ResourceSlices that exist.
type devices struct {
	// claims are by namespace/name.
	claims map[string]*resourceapi.ResourceClaim
	// slices are by the name of their pool.
	slices map[string]*resourceapi.ResourceSlice
	// created counts the claims so far.
	created int
	// pools is how many nodes have a pool of devices at times: the first ones.
	pools int
}

const deviceDriver = "gpu.example.com"

var (
	deviceClasses = []string{"gpu", "large"}
	deviceClaims  = []string{"c0", "c1", "c2"}
	deviceModels  = []string{"a", "b"}
)

// deviceObjects returns the first classes, slices and claims, with devices for the first
// nodes.
func (g *Generator) deviceObjects(pools int) (ops []log.Op) {
	g.devices = devices{claims: map[string]*resourceapi.ResourceClaim{}, slices: map[string]*resourceapi.ResourceSlice{}, pools: pools}
	for range 5 * pools {
		if op, ok := g.changeDevices(); ok {
			ops = append(ops, op)
		}
	}
	return ops
}

// changeDevices changes a claim, a slice, a class or a DeviceTaintRule.
func (g *Generator) changeDevices() (log.Op, bool) {
	return draw(g.random, []weighted[func() (log.Op, bool)]{
		{12, g.changeClaim},
		{6, func() (log.Op, bool) { return apply(g.slice(fmt.Sprint("n", g.IntN(g.devices.pools)))), true }},
		{1, func() (log.Op, bool) { return apply(g.slice("zonal")), true }},
		{1, g.deleteSlice},
		{2, func() (log.Op, bool) { return apply(g.deviceClass()), true }},
		{2, g.changeTaintRule},
	})()
}

func apply(object log.Object) log.Op { return log.Op{Kind: log.Apply, Object: object} }

// deviceClass returns a class with other selectors than before. It backs an extended
// resource at times.
func (g *Generator) deviceClass() log.Object {
	b := fixture.DeviceClass(pick(g.random, deviceClasses))
	// Never two: kube-scheduler forgets both when one of them ceases to back the resource
	// (kubernetes/kubernetes#141110).
	backs := b.Obj().Name == deviceClasses[0] && g.chance(60)
	if backs {
		b.ExtendedResource(string(extended[0]))
	}
	// To score by devices that a selector of such a class selects, kube-scheduler's
	// NodeResourcesFit keeps what matched once, and its NodeResourcesBalancedAllocation panics:
	// docs/parity.md. Changes are not scored.
	if (!backs || g.attempts == 0) && g.chance(60) {
		b.Selector(fmt.Sprintf("device.attributes[%q].model == %q", deviceDriver, pick(g.random, deviceModels)))
	}
	return b.Obj()
}

// deleteSlice deletes the only slice of a pool.
func (g *Generator) deleteSlice() (log.Op, bool) {
	if len(g.devices.slices) == 0 {
		return log.Op{}, false
	}
	pool := pick(g.random, slices.Sorted(maps.Keys(g.devices.slices)))
	slice := g.devices.slices[pool]
	delete(g.devices.slices, pool)
	return log.Op{Kind: log.Delete, Object: slice}, true
}

// slice returns the slice of a pool: that of a node, or one for the nodes of a zone.
func (g *Generator) slice(pool string) log.Object {
	b := fixture.ResourceSlice(pool, deviceDriver)
	if pool == "zonal" {
		b.NodeSelector(v1.LabelTopologyZone, some(g.random, zones, 2)...)
		if len(b.Obj().Spec.NodeSelector.NodeSelectorTerms[0].MatchExpressions[0].Values) == 0 {
			b.AllNodes()
		}
	}
	for i := range g.IntN(4) {
		b.Device(fmt.Sprint("d", i), fixture.Attributes{"model": pick(g.random, deviceModels)}, "memory", pick(g.random, []string{"40Gi", "80Gi"}))
		switch g.IntN(8) {
		case 0:
			b.Taint(pick(g.random, taintKeys[:3]), "", resourceapi.DeviceTaintEffectNoSchedule)
		case 1:
			b.Shareable()
		}
	}
	g.devices.slices[pool] = b.Obj()
	return b.Obj()
}

// changeTaintRule creates or deletes the rule that taints the devices of one pool.
func (g *Generator) changeTaintRule() (log.Op, bool) {
	rule := fixture.DeviceTaintRule("rule", deviceDriver, fmt.Sprint("n", g.IntN(4)), "", resourceapi.DeviceTaint{
		Key: pick(g.random, taintKeys[:3]), Effect: resourceapi.DeviceTaintEffectNoSchedule,
	})
	return log.Op{Kind: pick(g.random, []log.Kind{log.Apply, log.Delete}), Object: rule}, true
}

// changeClaim creates, allocates, deallocates or deletes a shared claim.
func (g *Generator) changeClaim() (log.Op, bool) {
	key := pick(g.random, namespaces) + "/" + pick(g.random, deviceClaims)
	if g.devices.claims[key] == nil {
		return apply(g.newDeviceClaim(key, nil)), true
	}
	return g.changeClaimOf(key)
}

// changeClaimOf allocates, deallocates or deletes a claim that exists.
func (g *Generator) changeClaimOf(key string) (log.Op, bool) {
	claim := g.devices.claims[key].DeepCopy()
	switch allocation := claim.Status.Allocation; {
	case g.chance(15):
		delete(g.devices.claims, key)
		return log.Op{Kind: log.Delete, Object: claim}, true
	case allocation == nil:
		if claim.Status.Allocation = g.freeDevice(); claim.Status.Allocation == nil {
			return log.Op{}, false
		}
	case g.chance(60):
		claim.Status.Allocation = nil
	default:
		claim.Annotations = map[string]string{"note": pick(g.random, apps)}
	}
	g.devices.claims[key] = claim
	return apply(claim.DeepCopy()), true
}

// newDeviceClaim returns a new claim, that of owner where it is not nil.
func (g *Generator) newDeviceClaim(key string, owner *v1.Pod) log.Object {
	g.devices.created++
	b := fixture.ResourceClaim(key).UID(fmt.Sprintf("%s-%d", key, g.devices.created))
	if g.attempts > 0 && g.chance(50) {
		b.RequestFirst("r", fixture.SubRequest("large", deviceClasses[1], 2), fixture.SubRequest("any", deviceClasses[0], 1))
	} else {
		g.requestDevices(b)
	}
	if owner != nil {
		b.OwnedBy(owner)
	}
	claim := b.Obj()
	g.devices.claims[key] = claim
	return claim.DeepCopy()
}

// requestDevices makes a claim request devices of one class.
func (g *Generator) requestDevices(b *fixture.ResourceClaimBuilder) {
	b.Request("r", pick(g.random, deviceClasses))
	switch g.IntN(8) {
	case 0:
		b.Count(2)
	case 1:
		b.All()
	case 2:
		b.Tolerates(pick(g.random, taintKeys[:3]), resourceapi.DeviceTaintEffectNoSchedule)
	case 3:
		b.Capacity("memory", "50Gi")
	}
}

// freeDevice returns an allocation of a device that no claim has; nil if there is none.
func (g *Generator) freeDevice() *resourceapi.AllocationResult {
	free := g.freeDevices()
	if len(free) == 0 {
		return nil
	}
	return pick(g.random, free)
}

// freeDevices returns an allocation of each device that no claim has.
func (g *Generator) freeDevices() (free []*resourceapi.AllocationResult) {
	taken := map[string]bool{}
	for _, claim := range g.devices.claims {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, one := range claim.Status.Allocation.Devices.Results {
			taken[one.Pool+"/"+one.Device] = true
		}
	}
	for _, pool := range slices.Sorted(maps.Keys(g.devices.slices)) {
		slice := g.devices.slices[pool]
		for i := range slice.Spec.Devices {
			name := slice.Spec.Devices[i].Name
			if taken[pool+"/"+name] || slice.Spec.Devices[i].AllowMultipleAllocations != nil {
				continue
			}
			allocation := fixture.Allocation("", deviceDriver+"/"+pool+"/"+name)
			allocation.NodeSelector = slice.Spec.NodeSelector
			if slice.Spec.NodeName != nil {
				allocation = fixture.Allocation(pool, deviceDriver+"/"+pool+"/"+name)
			}
			free = append(free, allocation)
		}
	}
	return free
}

// addDevices makes the pod use one or two shared claims, or one from a template, which may
// not have been generated yet, or makes it request an extended resource.
func (g *Generator) addDevices(pod *v1.Pod) {
	if g.chance(30) {
		g.addExtended(pod)
		return
	}
	b := fixture.Pod("any")
	for _, name := range some(g.random, deviceClaims, 2) {
		b.ResourceClaim(name)
	}
	if g.chance(50) || len(b.Obj().Spec.ResourceClaims) == 0 {
		b.ResourceClaimTemplate("own", "template", "")
	}
	pod.Spec.ResourceClaims = b.Obj().Spec.ResourceClaims
}

// extendedContainer is the prefix of the names of containers that request an extended
// resource.
const extendedContainer = "extended"

// addExtended adds a container that requests an extended resource.
func (g *Generator) addExtended(pod *v1.Pod) {
	name := pick(g.random, []v1.ResourceName{extended[0], extended[0], v1.ResourceName(resourceapi.ResourceDeviceClassPrefix + "gpu")})
	c := g.container(extendedContainer, 0)
	c.Resources.Requests = v1.ResourceList{name: resource.MustParse(pick(g.random, []string{"1", "2"}))}
	pod.Spec.Containers = append(pod.Spec.Containers, c)
}

// generateClaim writes the generated claim into the status of a pending pod, as the
// controller does that creates it, or creates the claim that the status names.
func (c *Changes) generateClaim() (log.Op, bool) {
	for i, pod := range c.pending {
		if !hasOwnClaim(pod) {
			continue
		}
		name := ownClaim(pod)
		key := pod.Namespace + "/" + name
		switch named := len(pod.Status.ResourceClaimStatuses) > 0; {
		case c.devices.claims[key] == nil && (named || c.chance(50)):
			return apply(c.newDeviceClaim(key, pod)), true
		case !named:
			pod = pod.DeepCopy()
			pod.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "own", ResourceClaimName: &name}}
			c.pending[i] = pod
			return log.Op{Kind: log.Schedule, Object: pod.DeepCopy()}, true
		}
	}
	return log.Op{}, false
}

// changeDevicesOfPending changes devices, half the time a claim of a pending pod.
func (c *Changes) changeDevicesOfPending() (log.Op, bool) {
	if len(c.pending) > 0 && c.chance(50) {
		pod := pick(c.random, c.pending)
		for i := range pod.Spec.ResourceClaims {
			name := pod.Spec.ResourceClaims[i].ResourceClaimName
			if name == nil || c.chance(50) {
				continue
			}
			key := pod.Namespace + "/" + *name
			if c.devices.claims[key] == nil {
				return apply(c.newDeviceClaim(key, nil)), true
			}
			return c.changeClaimOf(key)
		}
	}
	return c.changeDevices()
}
