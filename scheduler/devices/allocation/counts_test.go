package allocation

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

// countsText has one line for each request.
func countsText(counts []framework.DeviceCounts) (lines []string) {
	for _, c := range counts {
		name := strings.TrimSuffix(c.Claim+"/"+c.Request+"/"+c.Alternative, "/")
		matching := []string{}
		for _, s := range c.Selectors {
			matching = append(matching, fmt.Sprintf("class=%v %d", s.OfClass, s.Devices))
		}
		lines = append(lines, fmt.Sprintf("%s of %s wants %d: %d published, %v, %d free", name, c.Class, c.Wanted, c.Published, matching, c.Free))
	}
	return lines
}

func TestDevicesAreCountedByRequestAndSelector(t *testing.T) {
	const modelB = `device.attributes["gpu.example.com"].model == "b"`
	mixed := gpus("n1", 2).Device("b-0", fixture.Attributes{"model": "b"}).Device("b-1", fixture.Attributes{"model": "b"}).Taint("broken", "", resourceapi.DeviceTaintEffectNoSchedule)
	other := fixture.ResourceSlice("n2", "nic.example.com").Device("nic", fixture.Attributes{})
	anywhere := fixture.ResourceSlice("", testDriver).Name("shared").Pool("shared", 1, 1).AllNodes().Device("remote", fixture.Attributes{"model": "b"})
	incomplete := fixture.ResourceSlice("n2", testDriver).Name("half").Pool("half", 1, 2).Device("hidden", fixture.Attributes{"model": "b"})
	for name, test := range map[string]struct {
		node  *v1.Node
		held  []string
		claim *fixture.ResourceClaimBuilder
		want  []string
	}{
		"each selector applies to those that match the selectors before it": {
			claim: fixture.ResourceClaim("c").Request("r", "gpu", modelB),
			want:  []string{"default/c/r of gpu wants 1: 6 published, [class=true 5 class=false 3], 2 free"},
		},
		"devices that claims hold are not free": {
			held: []string{"b-0"}, claim: fixture.ResourceClaim("c").Request("r", "gpu", modelB),
			want: []string{"default/c/r of gpu wants 1: 6 published, [class=true 5 class=false 3], 1 free"},
		},
		"a toleration frees a tainted device": {
			claim: fixture.ResourceClaim("c").Request("r", "gpu", modelB).Tolerates("broken", resourceapi.DeviceTaintEffectNoSchedule),
			want:  []string{"default/c/r of gpu wants 1: 6 published, [class=true 5 class=false 3], 3 free"},
		},
		"on a node only its devices count": {
			node: fixture.Node("n2").Obj(), claim: fixture.ResourceClaim("c").Request("r", "gpu").Count(3),
			want: []string{"default/c/r of gpu wants 3: 2 published, [class=true 1], 1 free"},
		},
		"a request for all devices wants no number": {
			claim: fixture.ResourceClaim("c").Request("r", "gpu").All(),
			want:  []string{"default/c/r of gpu wants 0: 6 published, [class=true 5], 4 free"},
		},
		"alternatives are counted one by one": {
			claim: fixture.ResourceClaim("c").RequestFirst("r", fixture.SubRequest("many", "gpu", 9), fixture.SubRequest("b", "gpu", 1, modelB)),
			want: []string{
				"default/c/r/many of gpu wants 9: 6 published, [class=true 5], 4 free",
				"default/c/r/b of gpu wants 1: 6 published, [class=true 5 class=false 3], 2 free",
			},
		},
		"a selector that fails on a device does not match it": {
			claim: fixture.ResourceClaim("c").Request("r", "gpu", `device.attributes["gpu.example.com"].missing == "x"`),
			want:  []string{"default/c/r of gpu wants 1: 6 published, [class=true 5 class=false 0], 0 free"},
		},
		"without its class a request finds nothing": {
			claim: fixture.ResourceClaim("c").Request("r", "none"),
			want:  []string{"default/c/r of none wants 1: 6 published, [], 0 free"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newTestAllocator(mixed.Obj(), other.Obj(), anywhere.Obj(), incomplete.Obj())
			for _, device := range test.held {
				a.options.Allocated = a.options.Allocated.With(structured.MakeDeviceID(testDriver, "n1", device), Holding{Exclusive: true})
			}
			if diff := cmp.Diff(test.want, countsText(a.CountDevices(t.Context(), test.node, claimsOf(test.claim)))); diff != "" {
				t.Errorf("counts (-want,+got):\n%s", diff)
			}
		})
	}
}

// A request that fits alone has as many free devices on a node as the search could choose.
func TestARequestFitsExactlyWhereEnoughDevicesAreFree(t *testing.T) {
	for held := range 5 {
		a := newTestAllocator(gpus("n1", 4).Obj())
		for i := range held {
			a.options.Allocated = a.options.Allocated.With(structured.MakeDeviceID(testDriver, "n1", fmt.Sprintf("gpu-%02d", i)), Holding{Exclusive: true})
		}
		for count := range int64(5) {
			claims := claimsOf(fixture.ResourceClaim("c").Request("r", "gpu").Count(count + 1))
			fits, err := a.Fits(t.Context(), fixture.Node("n1").Obj(), claims)
			free := a.CountDevices(t.Context(), fixture.Node("n1").Obj(), claims)[0].Free
			if err != nil || fits != (int64(free) >= count+1) {
				t.Errorf("of 4 devices %d are held: %d free, and Fits for %d returns %v, %v", held, free, count+1, fits, err)
			}
		}
	}
}
