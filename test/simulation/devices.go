package simulation

import (
	"math/rand/v2"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcegroup "k8s.io/client-go/informers/resource"

	"github.com/berthdev/berth/scheduler/devices"
	"github.com/berthdev/berth/test/support/fixture"
)

// In a history of devices most pods use ResourceClaims, for which DynamicResources allocates
// devices: claims that users create and several pods may share, and claims that are generated for
// one pod. device_controllers.go has the controller of claims and the driver, device_client.go
// what Berth writes, and devices_check.go the invariants.

// deviceKinds are the kinds of objects about devices.
var deviceKinds = []furtherKind{
	{"resourceclaims", &resourceapi.ResourceClaim{}},
	{"resourceslices", &resourceapi.ResourceSlice{}},
	{"deviceclasses", &resourceapi.DeviceClass{}},
	{"devicetaintrules", &resourceapi.DeviceTaintRule{}},
}

const (
	deviceDriver = "gpu.example.com"
	// anyDevice is the class of all devices, largeDevice that of those whose attribute size is large.
	anyDevice, largeDevice = "any", "large"
	// everywherePool is the pool of the devices that all nodes reach.
	everywherePool = "all"
)

// deviceState is the state of a history's devices.
type deviceState struct {
	// on says that this is a history of devices.
	on bool
	// conditions says that some devices have to become ready before their pod is bound.
	conditions bool
	// known are the claims of pods that Berth decides about, by the UID of the pod, each by its
	// name in the API.
	known map[types.UID]map[string]types.UID
	// unfenced are the claims whose last fence by a new leader failed.
	unfenced map[types.UID]bool
}

// drawDevices makes this a history of devices.
func (sim *simulation) drawDevices() {
	random := sim.random
	sim.devices = deviceState{on: true, conditions: random.IntN(3) == 0, known: map[types.UID]map[string]types.UID{}, unfenced: map[types.UID]bool{}}
	sim.controllerWeight = 1 + random.IntN(8)
	for _, verb := range []string{writeClaim, writeClaimStatus, readClaim} {
		if random.IntN(2) == 0 {
			sim.settings.requestFaults[verb] = random.Float64() * 0.5
		}
		if random.IntN(3) == 0 {
			sim.settings.frequentOutcomes[verb] = outcomes[random.IntN(len(outcomes))]
		}
	}
	sim.settings.addKinds(random, deviceActions)
}

// hasDevices says whether this is a history of devices.
func (sim *simulation) hasDevices() bool { return sim.devices.on }

// served are the kinds of objects about devices that the API server serves.
func (sim *simulation) servedDevices() devices.Served {
	return devices.Served{Devices: sim.hasDevices(), Rules: sim.hasDevices()}
}

// createDevices creates the classes, the devices of each node, and some claims.
func (sim *simulation) createDevices() {
	random := sim.random
	for _, class := range deviceClasses() {
		sim.server.put(class)
	}
	for i := range sim.settings.nodes {
		sim.putSlice("n"+itoa(i), random)
	}
	if random.IntN(3) == 0 {
		sim.putSlice("", random)
	}
	for range 1 + random.IntN(3) {
		createDeviceClaim(sim, random)
	}
}

func deviceClasses() []*resourceapi.DeviceClass {
	return []*resourceapi.DeviceClass{
		fixture.DeviceClass(anyDevice).Obj(),
		fixture.DeviceClass(largeDevice).Selector(`device.attributes["` + deviceDriver + `"].size == "large"`).Obj(),
	}
}

// deviceActions are what users, administrators and drivers do to objects about devices.
var deviceActions = []actionKind{
	{"a device claim is created", 5, true, createDeviceClaim},
	{"a device claim is deleted", 4, false, removeDeviceClaim},
	{"the devices of a node change", 4, false, changeSlice},
	{"the devices of a node are gone", 1, false, removeSlice},
	{"a device class is deleted or made again", 1, false, toggleDeviceClass},
	{"a taint rule is made or deleted", 2, false, toggleTaintRule},
}

// deviceClaimNames is how many names of claims there are.
const deviceClaimNames = 5

func createDeviceClaim(sim *simulation, random *rand.Rand) bool {
	name := "r" + itoa(random.IntN(deviceClaimNames))
	if find[*resourceapi.ResourceClaim](sim.server, "shop/"+name) != nil {
		return false
	}
	sim.addDeviceClaim(name, nil, random)
	return true
}

// addDeviceClaim creates a claim, which owner controls where it is not nil.
func (sim *simulation) addDeviceClaim(name string, owner *v1.Pod, random *rand.Rand) {
	built := fixture.ResourceClaim("shop/" + name).UID("r" + itoa(sim.server.version))
	for i := range 1 + random.IntN(5)/4 {
		built.Request("r"+itoa(i), []string{anyDevice, anyDevice, largeDevice}[random.IntN(3)]).Count(int64(1 + random.IntN(4)/3))
		if random.IntN(8) == 0 {
			built.Tolerates("broken", resourceapi.DeviceTaintEffectNoSchedule)
		}
	}
	if owner != nil {
		built.OwnedBy(owner)
	}
	claim := built.Obj()
	sim.server.put(claim)
	sim.logf("outside: device claim %s, %d requests", describe(claim), len(claim.Spec.Devices.Requests))
}

// addDeviceClaims lets a new pod use claims, some of which do not exist yet.
func (sim *simulation) addDeviceClaims(pod *fixture.PodBuilder, random *rand.Rand) {
	switch random.IntN(6) {
	case 0:
		return
	case 1, 2:
		pod.ResourceClaimTemplate("own", "template", "")
		if random.IntN(3) > 0 {
			return
		}
	}
	name := "r" + itoa(random.IntN(deviceClaimNames))
	if random.IntN(3) > 0 && find[*resourceapi.ResourceClaim](sim.server, "shop/"+name) == nil {
		sim.addDeviceClaim(name, nil, random)
	}
	pod.ResourceClaim(name)
}

// removeDeviceClaim deletes a claim, which stays as long as it has a finalizer.
func removeDeviceClaim(sim *simulation, random *rand.Rand) bool {
	claim, ok := pick(random, all[*resourceapi.ResourceClaim](sim.server), func(c *resourceapi.ResourceClaim) bool { return c.DeletionTimestamp == nil })
	if !ok {
		return false
	}
	for _, r := range sim.requests {
		if r.verb == writeClaimStatus && r.about == claim.UID {
			sim.count("a claim is deleted while an allocation is under way")
		}
	}
	sim.deleteDeviceClaim(claim, "a user deletes it")
	return true
}

// putSlice publishes the devices of a node, or of all nodes: one or two, of which some are large.
func (sim *simulation) putSlice(node string, random *rand.Rand) {
	built := fixture.ResourceSlice(node, deviceDriver)
	generation := int64(1)
	if old := find[*resourceapi.ResourceSlice](sim.server, built.Obj().Name); old != nil {
		generation = old.Spec.Pool.Generation + 1
	}
	built.Pool(built.Obj().Spec.Pool.Name, generation, 1)
	for i := range 1 + random.IntN(3) {
		built.Device("d"+itoa(i), fixture.Attributes{"size": []string{"small", "large"}[random.IntN(2)]})
		if random.IntN(8) == 0 {
			built.Taint("broken", "", resourceapi.DeviceTaintEffectNoSchedule)
		}
		if sim.devices.conditions && random.IntN(3) == 0 {
			built.BindingConditions("ready", "failed")
		}
	}
	slice := built.Obj()
	sim.server.put(slice)
	sim.logf("outside: slice %s with %d devices", describe(slice), len(slice.Spec.Devices))
}

func changeSlice(sim *simulation, random *rand.Rand) bool {
	node := "n" + itoa(random.IntN(sim.settings.nodes+2))
	if random.IntN(6) == 0 {
		node = ""
	}
	sim.putSlice(node, random)
	return true
}

func removeSlice(sim *simulation, random *rand.Rand) bool {
	slice, ok := pick(random, all[*resourceapi.ResourceSlice](sim.server), func(*resourceapi.ResourceSlice) bool { return true })
	if ok {
		sim.logf("outside: slice %s is deleted", describe(slice))
		sim.server.drop(slice)
	}
	return ok
}

// toggleDeviceClass deletes a class, or creates it again.
func toggleDeviceClass(sim *simulation, random *rand.Rand) bool {
	class := deviceClasses()[random.IntN(2)]
	old := find[*resourceapi.DeviceClass](sim.server, class.Name)
	sim.logf("outside: device class %s is there: %v", class.Name, old == nil)
	if old != nil {
		sim.server.drop(old)
		return true
	}
	sim.server.put(class)
	return true
}

// toggleTaintRule taints the devices of a node, or ends that.
func toggleTaintRule(sim *simulation, random *rand.Rand) bool {
	pool := "n" + itoa(random.IntN(sim.settings.nodes))
	sim.logf("outside: the taint rule of %s is made or deleted", pool)
	if old := find[*resourceapi.DeviceTaintRule](sim.server, pool); old != nil {
		sim.server.drop(old)
		return true
	}
	rule := &resourceapi.DeviceTaintRule{}
	rule.Name = pool
	rule.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{Pool: &pool}
	rule.Spec.Taint = resourceapi.DeviceTaint{Key: "broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}
	sim.server.put(rule)
	return true
}

// Resource returns informers of the simulation.
func (f *factory) Resource() resourcegroup.Interface {
	return resourcegroup.New(f, v1.NamespaceAll, nil)
}

// deviceClaimsOf returns the names of the claims that a pod uses, and which of them were generated
// for it; ok is false where one was not generated yet.
func deviceClaimsOf(pod *v1.Pod) (names []string, own map[string]bool, ok bool) {
	own = map[string]bool{}
	for _, c := range pod.Spec.ResourceClaims {
		if c.ResourceClaimName != nil {
			names = append(names, *c.ResourceClaimName)
			continue
		}
		i := slices.IndexFunc(pod.Status.ResourceClaimStatuses, func(s v1.PodResourceClaimStatus) bool { return s.Name == c.Name })
		if i < 0 {
			return nil, nil, false
		}
		name := *pod.Status.ResourceClaimStatuses[i].ResourceClaimName
		names, own[name] = append(names, name), true
	}
	return names, own, true
}
