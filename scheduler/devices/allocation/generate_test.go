package allocation

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

// generator makes random objects of a cluster with a few nodes, drivers and pools.
type generator struct{ *rand.Rand }

func newGenerator(seed uint64) generator { return generator{rand.New(rand.NewPCG(seed, 1))} }

// one is true in one of n cases.
func (g generator) one(n int) bool { return g.IntN(n) == 0 }

func pick[T any](g generator, list ...T) T { return list[g.IntN(len(list))] }

var (
	nodeNames   = []string{"node-a", "node-b", "node-c"}
	driverNames = []string{"gpu.example.com", "nic.example.com"}
	taintKeys   = []string{"broken", "reserved"}
)

func (g generator) node(name string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": pick(g, "1", "2"), "rack": pick(g, "x", "y")}}}
}

func (g generator) nodeSelector() *v1.NodeSelector {
	term := func() v1.NodeSelectorTerm {
		return v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{
			{Key: pick(g, "zone", "rack"), Operator: v1.NodeSelectorOpIn, Values: pick(g, []string{"1", "2", "x"}, []string{"1", "x"}, []string{"x", "1"}, []string{"y", "2"})},
		}}
	}
	switch {
	case g.one(40):
		return &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term(), term()}}
	case g.one(300):
		return &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: "Near"}}}}}
	}
	selector := &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term()}}
	if g.one(3) {
		selector.NodeSelectorTerms[0].MatchExpressions = append(selector.NodeSelectorTerms[0].MatchExpressions, term().MatchExpressions...)
	}
	if g.one(4) {
		selector.NodeSelectorTerms[0].MatchFields = []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpNotIn, Values: []string{"node-c"}}}
	}
	return selector
}

// slice makes a slice of one of a few names, so that it may replace another one.
func (g generator) slice() *resourceapi.ResourceSlice {
	driver, pool := pick(g, driverNames...), pick(g, "pool-1", "pool-2", "pool-3")
	number := g.IntN(2)
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%s-%d", pool, driver, number)}}
	if g.one(2) {
		number += 2
		s.Name = fmt.Sprintf("%d-%s-%s", number, driver, pool)
	}
	s.Spec = resourceapi.ResourceSliceSpec{Driver: driver, Pool: resourceapi.ResourcePool{Name: pool, Generation: 1, ResourceSliceCount: pick[int64](g, 1, 1, 1, 2, 2, 3)}}
	if g.one(8) {
		s.Spec.Pool.Generation = 2
	}
	switch g.IntN(12) {
	case 0, 1:
		s.Spec.AllNodes = ptr.To(true)
	case 2, 3:
		s.Spec.NodeSelector = g.nodeSelector()
	case 4, 5:
		s.Spec.PerDeviceNodeSelection = ptr.To(true)
	default:
		s.Spec.NodeName = ptr.To(pick(g, nodeNames...))
	}
	if g.one(60) {
		s.Spec.NodeName, s.Spec.AllNodes = ptr.To(""), ptr.To(false)
	}
	if number%2 == 1 && pool == "pool-2" && !g.one(3) {
		sets := []string{fmt.Sprint("set-", number)}
		if g.one(100) {
			sets = []string{"set-1", "set-3"}
		}
		for _, set := range sets {
			s.Spec.SharedCounters = append(s.Spec.SharedCounters, resourceapi.CounterSet{Name: set, Counters: map[string]resourceapi.Counter{
				"memory": {Value: resource.MustParse(pick(g, "10Gi", "20Gi", "40Gi"))}, "engines": {Value: resource.MustParse(pick(g, "2", "4", "1500m"))},
			}})
		}
		return s
	}
	partitions := pool == "pool-2" && !g.one(4)
	devices := g.IntN(4)
	if g.one(40) {
		devices = 36
	}
	for i := range devices {
		d := g.device(fmt.Sprintf("dev-%d-%d", number, i))
		if g.one(120) {
			d.Name = "dev-0-0"
		}
		if partitions {
			d.ConsumesCounters = g.counters()
		}
		if s.Spec.PerDeviceNodeSelection != nil {
			g.placeDevice(&d)
		}
		s.Spec.Devices = append(s.Spec.Devices, d)
	}
	return s
}

func (g generator) placeDevice(d *resourceapi.Device) {
	switch g.IntN(4) {
	case 0:
		d.AllNodes = ptr.To(true)
	case 1:
		d.NodeName = ptr.To(pick(g, nodeNames...))
	case 2:
		d.NodeSelector = g.nodeSelector()
	}
}

func (g generator) counters() (list []resourceapi.DeviceCounterConsumption) {
	set := pick(g, "set-1", "set-1", "set-3")
	counters := map[string]resourceapi.Counter{"memory": {Value: resource.MustParse(pick(g, "5Gi", "10Gi", "20Gi"))}}
	if g.one(2) {
		counters["engines"] = resourceapi.Counter{Value: resource.MustParse("1")}
	}
	if g.one(150) {
		counters["tensors"] = resourceapi.Counter{Value: resource.MustParse("1")}
	}
	c := resourceapi.DeviceCounterConsumption{CounterSet: set, Counters: counters}
	if g.one(60) {
		c.CompatibilityGroups = []string{"mig"}
	}
	return []resourceapi.DeviceCounterConsumption{c}
}

func (g generator) device(name string) resourceapi.Device {
	d := resourceapi.Device{Name: name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		"model": {StringValue: ptr.To(pick(g, "a", "b"))}, "numa": {IntValue: ptr.To(int64(g.IntN(2)))},
	}}
	switch g.IntN(8) {
	case 0:
		d.Attributes["example.com/rack"] = resourceapi.DeviceAttribute{VersionValue: ptr.To(pick(g, "1.0.0", "2.0.0"))}
	case 1:
		d.Attributes["gpu.example.com/numa"] = resourceapi.DeviceAttribute{BoolValue: ptr.To(g.one(2))}
		delete(d.Attributes, "numa")
	case 2:
		if g.one(5) {
			d.Attributes["lists"] = resourceapi.DeviceAttribute{StringValues: []string{"a"}}
		}
	}
	if g.one(30) {
		delete(d.Attributes, "model")
	}
	if g.one(2) {
		d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": g.capacity()}
		if g.one(2) {
			d.Capacity["cores"] = resourceapi.DeviceCapacity{Value: resource.MustParse(pick(g, "4", "8"))}
		}
	}
	if g.one(3) {
		d.AllowMultipleAllocations = ptr.To(!g.one(6))
	}
	if g.one(6) {
		d.Taints = append(d.Taints, resourceapi.DeviceTaint{Key: pick(g, taintKeys...), Value: pick(g, "", "yes"),
			Effect: pick(g, resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute, resourceapi.DeviceTaintEffectNone)})
	}
	if g.one(10) {
		d.BindingConditions, d.BindingFailureConditions = []string{"ready"}, []string{"failed"}
	}
	d.BindsToNode = ptr.To(g.one(12))
	return d
}

func (g generator) capacity() resourceapi.DeviceCapacity {
	c := resourceapi.DeviceCapacity{Value: resource.MustParse(pick(g, "10Gi", "20Gi", "40Gi"))}
	quantity := func(text string) *resource.Quantity { return ptr.To(resource.MustParse(text)) }
	switch g.IntN(6) {
	case 0:
		c.RequestPolicy = &resourceapi.CapacityRequestPolicy{Default: quantity(pick(g, "5Gi", "50Gi"))}
	case 1:
		c.RequestPolicy = &resourceapi.CapacityRequestPolicy{Default: quantity("10Gi"), ValidValues: []resource.Quantity{resource.MustParse("5Gi"), resource.MustParse("10Gi")}}
	case 2:
		c.RequestPolicy = &resourceapi.CapacityRequestPolicy{Default: quantity("4Gi"), ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: quantity("2Gi")}}
		if g.one(2) {
			c.RequestPolicy.ValidRange.Step = quantity(pick(g, "1Gi", "3Gi"))
		}
		if g.one(2) {
			c.RequestPolicy.ValidRange.Max = quantity("12Gi")
		}
		if g.one(3) {
			c.RequestPolicy.Default = nil
		}
	}
	if g.one(200) {
		c = resourceapi.DeviceCapacity{Value: resource.MustParse("-1")}
	}
	return c
}

// Expressions of classes and requests. Some fail for some devices, one does not compile.
var (
	commonExpressions = []string{
		`true`, `device.driver == "gpu.example.com"`, `device.attributes[device.driver].?numa.orValue(0) == 1`,
		`device.allowMultipleAllocations`, `!device.allowMultipleAllocations`,
		`device.capacity[device.driver].?memory.orValue(quantity("0")).compareTo(quantity("20Gi")) >= 0`,
	}
	rareExpressions = []string{
		`device.attributes[device.driver].model == "a"`, `device.attributes["gpu.example.com"].numa == 1`, `device.capacity[device.driver].cores.isGreaterThan(quantity("4"))`, `device.driver ==`,
	}
)

func (g generator) selectors() (list []resourceapi.DeviceSelector) {
	for range pick(g, 0, 0, 1, 1, 2) {
		expression := pick(g, commonExpressions...)
		if g.one(30) {
			expression = pick(g, rareExpressions...)
		}
		list = append(list, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}})
	}
	return list
}

func (g generator) configuration() resourceapi.DeviceConfiguration {
	return resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: pick(g, driverNames...)}}
}

// classes implements structured.DeviceClassLister.
type classes map[string]*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) {
	return slices.Collect(maps.Values(c)), nil
}

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	if class := c[name]; class != nil {
		return class, nil
	}
	return nil, errors.New("not found")
}

func (g generator) classes() classes {
	list := classes{}
	for _, name := range []string{"class-1", "class-2", "class-3"} {
		class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.DeviceClassSpec{Selectors: g.selectors()}}
		for range g.IntN(3) {
			class.Spec.Config = append(class.Spec.Config, resourceapi.DeviceClassConfiguration{DeviceConfiguration: g.configuration()})
		}
		list[name] = class
	}
	return list
}

// generation is one generation of a pool.
type generation struct {
	driver string
	pool   resourceapi.ResourcePool
}

func generationOf(s *resourceapi.ResourceSlice) generation {
	return generation{s.Spec.Driver, resourceapi.ResourcePool{Name: s.Spec.Pool.Name, Generation: s.Spec.Pool.Generation}}
}

// completed returns copies of slices with which most pools are complete and valid: with
// the number of slices that there are, and devices that consume only counters which exist.
func (g generator) completed(list []*resourceapi.ResourceSlice) (changed []*resourceapi.ResourceSlice) {
	counts, sets := map[generation]int64{}, map[generation]string{}
	for _, s := range list {
		counts[generationOf(s)]++
		for _, set := range s.Spec.SharedCounters {
			sets[generationOf(s)] += set.Name
		}
	}
	for _, s := range list {
		s, before := s.DeepCopy(), s
		if !g.one(15) {
			s.Spec.Pool.ResourceSliceCount = counts[generationOf(s)]
		}
		for i := range s.Spec.Devices {
			d := &s.Spec.Devices[i]
			d.ConsumesCounters = slices.DeleteFunc(d.ConsumesCounters, func(c resourceapi.DeviceCounterConsumption) bool {
				return !strings.Contains(sets[generationOf(s)], c.CounterSet) && !g.one(40)
			})
		}
		if !equality.Semantic.DeepEqual(s, before) {
			changed = append(changed, s)
		}
	}
	return changed
}

// allocated makes what claims hold of the devices of slices.
func (g generator) allocated(list []*resourceapi.ResourceSlice) map[structured.DeviceID]Holding {
	held := map[structured.DeviceID]Holding{}
	for _, s := range list {
		for i := range s.Spec.Devices {
			if g.one(4) {
				held[structured.MakeDeviceID(s.Spec.Driver, s.Spec.Pool.Name, s.Spec.Devices[i].Name)] = g.holding(&s.Spec.Devices[i])
			}
		}
	}
	return held
}

func (g generator) holding(d *resourceapi.Device) Holding {
	if d.AllowMultipleAllocations == nil && !g.one(20) {
		return Holding{Exclusive: true}
	}
	h := Holding{Shares: 1 + g.IntN(2)}
	if d.Capacity != nil && !g.one(4) {
		h.Capacity = structured.ConsumedCapacity{"memory": ptr.To(resource.MustParse(pick(g, "1Gi", "5Gi", "10Gi")))}
	}
	return h
}

// stateOf returns the same for the public allocator.
func stateOf(held map[structured.DeviceID]Holding) structured.AllocatedState {
	var allocated Allocated
	for id, h := range held {
		allocated = allocated.With(id, h)
	}
	return allocated.State()
}
