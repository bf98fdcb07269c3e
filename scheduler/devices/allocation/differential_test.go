package allocation

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/berthdev/berth/scheduler/framework"
)

// cluster is what both allocators get. Each step changes a part of it; the index and what
// is allocated get the changes only.
type cluster struct {
	generator
	t        *testing.T
	slices   map[string]*resourceapi.ResourceSlice
	held     map[structured.DeviceID]Holding
	classes  classes
	nodes    []*v1.Node
	compiler *cel.Cache

	index     *Index
	allocated Allocated
	features  map[string]int
}

func newCluster(t *testing.T, seed uint64, features map[string]int) *cluster {
	return newClusterOf(t, newGenerator(seed), cel.NewCache(100, cel.Features{EnableConsumableCapacity: true}), features)
}

// newClusterOf returns the cluster that a generator makes.
func newClusterOf(t *testing.T, g generator, compiler *cel.Cache, features map[string]int) *cluster {
	c := &cluster{generator: g, t: t, slices: map[string]*resourceapi.ResourceSlice{}, features: features, compiler: compiler}
	c.index = NewIndex(c.compiler)
	c.classes = c.generator.classes()
	for _, name := range nodeNames {
		c.nodes = append(c.nodes, c.node(name))
	}
	return c
}

// change replaces and removes some slices, and what is held of devices.
func (c *cluster) change() {
	var changed []*resourceapi.ResourceSlice
	var deleted []string
	for range 1 + c.IntN(3) {
		changed = append(changed, c.slice())
	}
	for _, name := range slices.Sorted(maps.Keys(c.slices)) {
		if c.one(8) {
			deleted = append(deleted, name)
		}
	}
	for _, name := range deleted {
		delete(c.slices, name)
	}
	for _, s := range changed {
		c.slices[s.Name] = s
	}
	if !c.one(4) {
		for _, s := range c.completed(c.list()) {
			c.slices[s.Name] = s
			changed = append(changed, s)
		}
	}
	deleted = slices.DeleteFunc(deleted, func(name string) bool { return c.slices[name] != nil })
	if c.one(3) {
		syncIndex(c.index, c.list())
	} else {
		c.index.Update(changed, deleted)
	}
	held := c.generator.allocated(c.list())
	for id := range c.held {
		if _, still := held[id]; !still {
			c.allocated = c.allocated.With(id, Holding{})
		}
	}
	for id, h := range held {
		c.allocated = c.allocated.With(id, h)
	}
	c.held = held
	if c.one(4) {
		i := c.IntN(len(c.nodes))
		c.nodes[i] = c.node(c.nodes[i].Name)
	}
}

// list returns the slices by name.
func (c *cluster) list() []*resourceapi.ResourceSlice {
	return slices.SortedFunc(maps.Values(c.slices), func(a, b *resourceapi.ResourceSlice) int { return cmp.Compare(a.Name, b.Name) })
}

// compare allocates claims on each node with both allocators.
func (c *cluster) compare(ctx context.Context, seed uint64, step int, claims []*resourceapi.ResourceClaim) {
	c.t.Helper()
	allocator := NewAllocator(Options{Index: c.index, Allocated: c.allocated, Classes: c.classes})
	for _, node := range c.nodes {
		reference, err := structured.NewAllocator(ctx, framework.DeviceFeatures, stateOf(c.held), c.classes, c.list(), c.compiler)
		if err != nil {
			c.t.Fatal(err)
		}
		want, wantErr := reference.Allocate(ctx, node, claims)
		got, gotErr := allocator.Allocate(ctx, node, claims)
		if diff := gocmp.Diff(errorText(wantErr), errorText(gotErr)); diff != "" {
			c.t.Fatalf("seed %d, step %d, node %s: error (-want,+got):\n%s\nclaims: %s", seed, step, node.Name, diff, asJSON(claims))
		}
		if diff := gocmp.Diff(compared(want), compared(got), sameQuantities); diff != "" || !SameResults(want, got) || (want == nil) != (got == nil) {
			c.t.Fatalf("seed %d, step %d, node %s: result (-want,+got):\n%s\nclaims: %s", seed, step, node.Name, diff, asJSON(claims))
		}
		if fits, fitsErr := allocator.Fits(ctx, node, claims); fits != (want != nil) || errorText(fitsErr) != errorText(wantErr) {
			c.t.Fatalf("seed %d, step %d, node %s: Fits returns %v, %v, want those of Allocate: %v, %v", seed, step, node.Name, fits, fitsErr, want != nil, wantErr)
		}
		c.count(claims, want, wantErr)
	}
}

// claimsForAll returns claims that the public allocator can search for: with many devices
// only one request, and that for a few.
func (c *cluster) claimsForAll() []*resourceapi.ResourceClaim {
	claims := c.claims()
	for _, s := range c.slices {
		if len(s.Spec.Devices) < 30 {
			continue
		}
		claims = claims[:1]
		request := &claims[0].Spec.Devices.Requests[0]
		claims[0].Spec.Devices.Requests = claims[0].Spec.Devices.Requests[:1]
		for i := range request.FirstAvailable {
			request.FirstAvailable[i].Count = min(request.FirstAvailable[i].Count, 2)
		}
		if request.Exactly != nil {
			request.Exactly.Count = min(request.Exactly.Count, 2)
		}
	}
	return claims
}

var sameQuantities = gocmp.Comparer(func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 && a.Format == b.Format })

func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// compared returns results without the random IDs of shares.
func compared(results []resourceapi.AllocationResult) (list []resourceapi.AllocationResult) {
	for i := range results {
		list = append(list, withoutShareIDs(results[i]))
	}
	return list
}

// errorKinds are the errors that must occur.
var errorKinds = []string{
	"failed to perform node selection for slice", "failed to perform node selection for device", "invalid resource pools", "is currently being updated", "is currently invalid",
	"CEL compile error", "CEL runtime error", "exceeds the claim limit", "could not retrieve device class", "missing device class name", "unsupported count mode",
	"empty constraint", "CEL expression empty", "derived attributes", "a claim constraint would not be satisfied", "checking capacity", "exceeds MaxInt64", "passes MaxInt64", "is negative", "create NodeSelector",
}

// count counts which features decided.
func (c *cluster) count(claims []*resourceapi.ResourceClaim, results []resourceapi.AllocationResult, err error) {
	for _, kind := range errorKinds {
		if err != nil && regexp.MustCompile(kind).MatchString(err.Error()) {
			c.features["error: "+kind]++
		}
	}
	if err == nil && results == nil {
		c.features["no devices"]++
	}
	for i := range results {
		c.countResult(claims[i], &results[i])
	}
}

func (c *cluster) countResult(claim *resourceapi.ResourceClaim, result *resourceapi.AllocationResult) {
	has := func(feature string, is bool) {
		if is {
			c.features[feature]++
		} else {
			c.features[feature] += 0
		}
	}
	devices := result.Devices.Results
	has("one device", len(devices) == 1)
	has("several devices", len(devices) > 1)
	has("configuration for all requests", slices.ContainsFunc(result.Devices.Config, func(c resourceapi.DeviceAllocationConfiguration) bool { return c.Requests == nil }))
	has("configuration for some requests", slices.ContainsFunc(result.Devices.Config, func(c resourceapi.DeviceAllocationConfiguration) bool { return c.Requests != nil }))
	has("on all nodes", result.NodeSelector == nil)
	has("on one node", result.NodeSelector != nil && len(result.NodeSelector.NodeSelectorTerms[0].MatchExpressions) == 0)
	has("on nodes with labels", result.NodeSelector != nil && len(result.NodeSelector.NodeSelectorTerms[0].MatchExpressions) > 0)
	for _, constraint := range claim.Spec.Devices.Constraints {
		has("equal attributes", constraint.MatchAttribute != nil && len(devices) > 1)
		has("distinct attributes", constraint.DistinctAttribute != nil && len(devices) > 1)
	}
	for _, request := range claim.Spec.Devices.Requests {
		has("all devices", request.Exactly != nil && request.Exactly.AllocationMode == resourceapi.DeviceAllocationModeAll)
	}
	for i := range devices {
		d := c.find(&devices[i])
		has("first alternative", regexp.MustCompile("/sub-0").MatchString(devices[i].Request))
		has("later alternative", regexp.MustCompile("/sub-[12]").MatchString(devices[i].Request))
		has("admin access", devices[i].AdminAccess != nil)
		has("share", devices[i].ShareID != nil)
		has("consumed capacity", len(devices[i].ConsumedCapacity) > 0)
		has("binding conditions", devices[i].BindingConditions != nil)
		has("counters", len(d.ConsumesCounters) > 0)
		has("tolerated taint", len(d.Taints) > 0 && d.Taints[0].Effect != resourceapi.DeviceTaintEffectNone)
		has("device selects nodes", d.NodeName != nil || d.NodeSelector != nil || d.AllNodes != nil)
	}
}

func (c *cluster) find(result *resourceapi.DeviceRequestAllocationResult) *resourceapi.Device {
	for _, s := range c.slices {
		for i := range s.Spec.Devices {
			if s.Spec.Driver == result.Driver && s.Spec.Pool.Name == result.Pool && s.Spec.Devices[i].Name == result.Device {
				return &s.Spec.Devices[i]
			}
		}
	}
	return &resourceapi.Device{}
}

func TestResultsAndErrorsAreThoseOfThePublicAllocator(t *testing.T) {
	clusters, steps := 400, 40
	if testing.Short() {
		clusters = 60
	}
	features := map[string]int{}
	for seed := range uint64(clusters) {
		c := newCluster(t, seed, features)
		for step := range steps {
			c.change()
			c.compare(t.Context(), seed, step, c.claimsForAll())
		}
	}
	for _, kind := range errorKinds {
		features["error: "+kind] += 0
	}
	for _, feature := range slices.Sorted(maps.Keys(features)) {
		t.Logf("%6d %s", features[feature], feature)
		if features[feature] == 0 && !testing.Short() {
			t.Errorf("no case has: %s", feature)
		}
	}
}
