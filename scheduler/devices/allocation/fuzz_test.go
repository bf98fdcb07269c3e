package allocation

import (
	"math/rand/v2"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/utils/ptr"

	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/hostile"
)

var features = cel.Features{EnableConsumableCapacity: true}

// FuzzAllocation has the bytes choose the slices, what is held of them, and the claims. The
// devices and the errors are those of the public allocator.
func FuzzAllocation(f *testing.F) {
	for number := range uint64(8) {
		f.Add(hostile.Seed(number, 600))
	}
	compiler := cel.NewCache(1000, features)
	f.Fuzz(func(t *testing.T, input []byte) {
		if len(input) > 4096 {
			return
		}
		b := hostile.New(input)
		c := newClusterOf(t, generator{rand.New(b.Source())}, compiler, map[string]int{})
		for step := range 4 {
			c.change()
			c.compare(t.Context(), 0, step, c.claimsForAll())
			if b.Used() {
				return
			}
		}
	})
}

// selectedDevices is a slice whose devices have attributes of each type.
func selectedDevices() *deviceSlice {
	slice := fixture.ResourceSlice("n0", "gpu.example.com").Device("d0", nil, "memory", "40Gi").Device("d1", nil).Obj()
	slice.Spec.Devices[0].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		"model": {StringValue: ptr.To("a100")}, "numa": {IntValue: ptr.To(int64(1))}, "healthy": {BoolValue: ptr.To(true)},
		"driverVersion": {VersionValue: ptr.To("1.2.3")}, "other.example.com/lane": {IntValue: ptr.To(int64(-9223372036854775808))},
	}
	slice.Spec.Devices[1].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {}, "": {StringValue: ptr.To("")}}
	slice.Spec.Devices[1].Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("-1")}}
	return newDeviceSlice(slice, 0)
}

// FuzzExpression has any text as the CEL expression of a selector. Its verdict on a device is
// that of the library, the first time and from then on, and is the same whatever was asked
// before.
func FuzzExpression(f *testing.F) {
	for _, text := range []string{
		`device.attributes["gpu.example.com"].model == "a100"`, `device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("10Gi"))`,
		`device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].numa in [0, 1]`, `device.attributes["gpu.example.com"].driverVersion.isGreaterThan(semver("1.0.0"))`,
		`true`, `1`, `device`, ``, `device.attributes["x"]["y"] == 1`, `device.allowMultipleAllocations == true`,
		`cel.bind(d, device.attributes["gpu.example.com"], d.healthy && d.model.matches("^a"))`, `[1,2,3].all(i, [1,2,3].all(j, [1,2,3].all(k, i+j+k > 0)))`,
		`device.attributes["other.example.com"].lane / 0 == 1`, `"` + "\xff" + `" == device.driver`, `device.attributes.exists(k, k == "gpu.example.com")`,
	} {
		f.Add(text)
	}
	cache := cel.NewCache(1000, features)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > resourceapi.CELSelectorExpressionMaxLength {
			return
		}
		known, want := newExpressions(cache), cel.GetCompiler(features).CompileCELExpression(text, cel.Options{DisableCostEstimation: true})
		e := known.get(text)
		if e != known.get(text) {
			t.Fatal("an expression is compiled twice")
		}
		if (e.compiled.Error == nil) != (want.Error == nil) {
			t.Fatalf("compiled: %v, by the library: %v", e.compiled.Error, want.Error)
		}
		if want.Error != nil {
			if e.compiled.Error.Error() == "" {
				t.Fatal("the error says nothing")
			}
			return
		}
		devices, reversed := selectedDevices(), newExpressions(cache).get(text)
		for i := range devices.devices {
			d := &devices.devices[i]
			match, _, err := want.DeviceMatches(t.Context(), cel.Device{
				Driver: "gpu.example.com", AllowMultipleAllocations: d.api.AllowMultipleAllocations, Attributes: d.api.Attributes, Capacity: d.api.Capacity,
			})
			other := &devices.devices[len(devices.devices)-1-i]
			_, _ = reversed.matches(t.Context(), other)
			for _, asked := range []*expression{e, e, reversed} {
				got, gotErr := asked.matches(t.Context(), d)
				if got != match || errorText(gotErr) != errorText(err) {
					t.Fatalf("device %d: %t, %v; by the library %t, %v", i, got, gotErr, match, err)
				}
			}
		}
	})
}
