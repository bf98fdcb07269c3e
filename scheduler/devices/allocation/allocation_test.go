package allocation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/berthdev/berth/test/support/fixture"
)

const testDriver = "gpu.example.com"

// newTestAllocator returns an allocator for slices, and a class for all devices of
// testDriver.
func newTestAllocator(slices ...*resourceapi.ResourceSlice) *Allocator {
	index := NewIndex(cel.NewCache(10, cel.Features{EnableConsumableCapacity: true}))
	index.Update(slices, nil)
	return NewAllocator(Options{Index: index, Classes: classes{"gpu": fixture.DeviceClass("gpu").Selector(`device.driver == "gpu.example.com"`).Obj()}})
}

// gpus returns a slice with a number of equal devices.
func gpus(node string, count int) *fixture.ResourceSliceBuilder {
	slice := fixture.ResourceSlice(node, testDriver)
	for i := range count {
		slice.Device(fmt.Sprintf("gpu-%02d", i), fixture.Attributes{"model": "a"})
	}
	return slice
}

func claimsOf(builders ...*fixture.ResourceClaimBuilder) (claims []*resourceapi.ResourceClaim) {
	for _, b := range builders {
		claims = append(claims, b.Obj())
	}
	return claims
}

// devicesOfResult returns the names of the devices of each claim.
func devicesOfResult(results []resourceapi.AllocationResult) (names []string) {
	for i := range results {
		for _, device := range results[i].Devices.Results {
			names = append(names, device.Device)
		}
	}
	return names
}

// The public allocator tries all combinations in each of these cases.
func TestAClaimThatWantsMoreThanThereIsFailsAfterFewSteps(t *testing.T) {
	for name, test := range map[string]struct {
		free   int
		claims []*resourceapi.ResourceClaim
		steps  int
	}{
		"one request":  {free: 30, claims: claimsOf(fixture.ResourceClaim("a").Request("r", "gpu").Count(31)), steps: 31},
		"two requests": {free: 19, claims: claimsOf(fixture.ResourceClaim("a").Request("r", "gpu").Count(10).Request("s", "gpu").Count(10)), steps: triesBeforeBound},
		"two claims":   {free: 19, claims: claimsOf(fixture.ResourceClaim("a").Request("r", "gpu").Count(10), fixture.ResourceClaim("b").Request("r", "gpu").Count(10)), steps: triesBeforeBound},
		"some, then all": {free: 19, steps: triesBeforeBound,
			claims: claimsOf(fixture.ResourceClaim("a").Request("r", "gpu").Count(10), fixture.ResourceClaim("b").Request("r", "gpu").All())},
	} {
		t.Run(name, func(t *testing.T) {
			a := newTestAllocator(gpus("node", test.free).Obj())
			a.budget = test.steps
			results, err := a.Allocate(t.Context(), fixture.Node("node").Obj(), test.claims)
			if results != nil || err != nil {
				t.Errorf("Allocate returns %v, %v, want nothing within %d steps", results, err, test.steps)
			}
		})
	}
}

// Requests that select the same devices are given them one after the other: to move those that
// are taken would look at more than ten million.
func TestTheProofThatASearchIsInVainIsCheap(t *testing.T) {
	const claims, each = 10, 32
	var list []*resourceapi.ResourceClaim
	for i := range claims {
		list = append(list, fixture.ResourceClaim(fmt.Sprint("claim-", i)).Request("r", "gpu").Count(each).Obj())
	}
	a := newTestAllocator(gpus("node", claims*each-1).Obj())
	if ok, err := a.Fits(t.Context(), fixture.Node("node").Obj(), list); ok || err != nil {
		t.Fatalf("Fits returns %v, %v, want that it proves that there are too few", ok, err)
	}
	if steps := a.steps.Load(); steps < claims*each || steps > 4*claims*each*claims*each {
		t.Errorf("the search took %d steps, want the square of the number of devices at most a few times", steps)
	}
}

func TestTheBoundDoesNotRefuseWhatIsThere(t *testing.T) {
	slice := gpus("node", 19)
	slice.Device("gpu-99", fixture.Attributes{"model": "b"})
	a := newTestAllocator(slice.Obj())
	model := `device.attributes["gpu.example.com"].model == "b"`
	// The first request has to leave the last device to the second one.
	claims := claimsOf(fixture.ResourceClaim("a").Request("r", "gpu").Count(19).Request("s", "gpu", model))
	results, err := a.Allocate(t.Context(), fixture.Node("node").Obj(), claims)
	if err != nil {
		t.Fatal(err)
	}
	if names := devicesOfResult(results); len(names) != 20 || names[19] != "gpu-99" {
		t.Errorf("the claim gets %v, want all devices, gpu-99 last", names)
	}
}

// endless is a claim of which each choice for the first request has to be tried, since the
// counters are not enough for the second one.
func endless() (*resourceapi.ResourceSlice, []*resourceapi.ResourceClaim) {
	slice := gpus("node", 20).Pool("node", 1, 2)
	for _, name := range []string{"partition-1", "partition-2"} {
		slice.Device(name, fixture.Attributes{"model": "b"}).Consumes("memory", "bytes", "10Gi")
	}
	claim := fixture.ResourceClaim("default/endless").Request("many", "gpu", `device.attributes["gpu.example.com"].model == "a"`).Count(8).
		Request("two", "gpu", `device.attributes["gpu.example.com"].model == "b"`).Count(2)
	return slice.Obj(), claimsOf(claim)
}

func countersOf(node string) *resourceapi.ResourceSlice {
	return fixture.ResourceSlice(node, testDriver).Name("counters").Pool(node, 1, 2).SharedCounters("memory", "bytes", "15Gi").Obj()
}

func TestASearchThatUsesUpItsBudgetIsAnErrorThatNamesNodeAndClaim(t *testing.T) {
	slice, claims := endless()
	a := newTestAllocator(slice, countersOf("node"))
	a.budget = 10_000
	results, err := a.Allocate(t.Context(), fixture.Node("node").Obj(), claims)
	if results != nil {
		t.Errorf("Allocate returns %v, want nothing", results)
	}
	const want = "node node, claim default/endless, request two: gave up after trying 10000 devices"
	if diff := cmp.Diff(want, errorText(err)); diff != "" {
		t.Errorf("error (-want,+got):\n%s", diff)
	}
	if errors.Is(err, structured.ErrFailedAllocationOnNode) {
		t.Error("the error concerns only the node, want it to end the attempt")
	}
}

// vain is a claim that no node can satisfy, and of which almost each choice for the single
// devices has to be tried: no two devices have the same index.
func vain(node string) (*resourceapi.ResourceSlice, *fixture.ResourceClaimBuilder) {
	slice := fixture.ResourceSlice(node, testDriver)
	for i := range 7 {
		slice.Device(fmt.Sprintf("gpu-%02d", i), fixture.Attributes{"index": i})
	}
	claim := fixture.ResourceClaim("default/vain")
	for i := range 5 {
		claim.Request(fmt.Sprintf("single-%d", i), "gpu")
	}
	return slice.Obj(), claim.Request("x", "gpu").Request("y", "gpu").MatchAttribute("gpu.example.com/index").
		Mutate(func(c *resourceapi.ResourceClaim) { c.Spec.Devices.Constraints[0].Requests = []string{"x", "y"} })
}

func TestTheSearchesOfAnAttemptShareABudget(t *testing.T) {
	const nodes = 20
	var slices []*resourceapi.ResourceSlice
	for i := range nodes {
		slice, _ := vain(fmt.Sprintf("node-%02d", i))
		slices = append(slices, slice)
	}
	_, claim := vain("")
	claims := claimsOf(claim)
	a := newTestAllocator(slices...)
	fits := func(i int) (bool, error) {
		return a.Fits(t.Context(), fixture.Node(fmt.Sprintf("node-%02d", i)).Obj(), claims)
	}
	if ok, err := fits(0); ok || err != nil {
		t.Fatalf("Fits returns %v, %v, want no error within the budget of one node", ok, err)
	}
	perNode := a.steps.Load()
	a.attemptBudget = 5*perNode + perNode/2
	for i := 1; i < 5; i++ {
		if ok, err := fits(i); ok || err != nil {
			t.Fatalf("node %d: Fits returns %v, %v, want no error within the budget of the attempt", i, ok, err)
		}
	}
	for i := 5; i < nodes; i++ {
		_, err := fits(i)
		if text := errorText(err); !strings.HasPrefix(text, fmt.Sprintf("node node-%02d, claim default/vain, request ", i)) ||
			!strings.HasSuffix(text, fmt.Sprintf(": gave up after %d steps on all nodes", a.attemptBudget)) {
			t.Fatalf("node %d: the error is %q, want that the attempt gives up", i, text)
		}
	}
	if steps := a.steps.Load(); steps > a.attemptBudget+perNode {
		t.Errorf("%d steps were made, want no more than %d and the proof of one node", steps, a.attemptBudget)
	}
}

func TestASearchEndsWithItsContext(t *testing.T) {
	slice, claims := endless()
	a := newTestAllocator(slice, countersOf("node"))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the pod was deleted"))
	_, err := a.Allocate(ctx, fixture.Node("node").Obj(), claims)
	if want := "filter operation aborted: the pod was deleted"; errorText(err) != want {
		t.Errorf("Allocate returns %v, want %q", err, want)
	}
}

// The API server accepts none of these; the public allocator panics.
func TestClaimsThatTheAPIDoesNotAllowGoToTheReference(t *testing.T) {
	claims := claimsOf(fixture.ResourceClaim("a").Request("r", "gpu").Mutate(func(c *resourceapi.ResourceClaim) { c.Spec.Devices.Requests[0].Exactly = nil }))
	if !needsReference(claims) {
		t.Error("NeedsReference returns false, want true")
	}
	a := newTestAllocator()
	for name, call := range map[string]func() error{
		"Allocate": func() error { _, err := a.Allocate(t.Context(), fixture.Node("node").Obj(), claims); return err },
		"Fits":     func() error { _, err := a.Fits(t.Context(), fixture.Node("node").Obj(), claims); return err },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not call the reference, which panics", name)
				}
			}()
			if err := call(); err != nil {
				t.Error(err)
			}
		}()
	}
}

func TestAnAllocatorCanBeUsedByManyAtTheSameTime(t *testing.T) {
	var list []*resourceapi.ResourceSlice
	var nodes []*v1.Node
	for i := range 20 {
		nodes = append(nodes, fixture.Node(fmt.Sprint("node-", i)).Obj())
		list = append(list, gpus(nodes[i].Name, 3).Obj())
	}
	a := newTestAllocator(list...)
	claims := claimsOf(fixture.ResourceClaim("a").Request("r", "gpu", `device.attributes["gpu.example.com"].model == "a"`).Count(2))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for _, node := range nodes {
				results, err := a.Allocate(t.Context(), node, claims)
				if names := devicesOfResult(results); err != nil || !slices.Equal(names, []string{"gpu-00", "gpu-01"}) {
					t.Errorf("node %s: Allocate returns %v, %v, want gpu-00 and gpu-01", node.Name, names, err)
				}
			}
		})
		all.Go(func() { a.options.Index.Update(list[:1], nil) })
	}
	all.Wait()
}
