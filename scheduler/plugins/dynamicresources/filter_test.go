package dynamicresources

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berthdev/berth/test/support/fixture"
)

// The message of the allocator's refusal, and that of the plugin for an allocated claim.
const (
	cannotAllocate = "UnschedulableAndUnresolvable: cannot allocate all claims"
	notAvailable   = "UnschedulableAndUnresolvable: resourceclaim not available on the node"
)

func TestPreFilter(t *testing.T) {
	other := pod("other")
	template := fixture.Pod("p").ResourceClaimTemplate("gpu", "t", "p-gpu").Obj()
	for name, c := range map[string]struct {
		pod     *v1.Pod
		objects []runtime.Object
		want    string
		// ungated says that PreEnqueue does not gate the pod although PreFilter rejects it.
		ungated bool
	}{
		"a pod without claims is skipped":          {pod: pod("p"), want: "Skip", ungated: true},
		"a claim that was not generated yet":       {pod: fixture.Pod("p").ResourceClaimTemplate("gpu", "t", "").Obj(), want: `UnschedulableAndUnresolvable: pod "default/p": ResourceClaim not created yet`},
		"a claim that does not exist":              {pod: pod("p", "c"), want: `UnschedulableAndUnresolvable: could not find ResourceClaim "default/c"`},
		"a claim that is being deleted":            {pod: pod("p", "c"), objects: []runtime.Object{claim("c").Finalizer().Terminating().Obj()}, want: `UnschedulableAndUnresolvable: resourceclaim "c" is being deleted`},
		"a generated claim of another pod":         {pod: template, objects: []runtime.Object{claim("p-gpu").OwnedBy(other).Obj()}, want: `UnschedulableAndUnresolvable: ResourceClaim default/p-gpu was not created for Pod default/p (Pod is not owner)`},
		"a class that does not exist":              {pod: pod("p", "c"), objects: []runtime.Object{claim("c").Request("r", "gpu").Obj()}, want: "UnschedulableAndUnresolvable: request r: device class gpu does not exist", ungated: true},
		"a class of an alternative does not exist": {pod: pod("p", "c"), objects: []runtime.Object{class(), claim("c").RequestFirst("r", fixture.SubRequest("one", "gpu", 1), fixture.SubRequest("two", "tpu", 1)).Obj()}, want: "UnschedulableAndUnresolvable: request r/two: device class tpu does not exist", ungated: true},
		"a request of an unknown kind":             {pod: pod("p", "c"), objects: []runtime.Object{claim("c").Mutate(func(c *resourceapi.ResourceClaim) { c.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "r"}} }).Obj()}, want: "UnschedulableAndUnresolvable: resource claim default/c, request r: unknown request type", ungated: true},
		"a claim that may be shared":               {pod: pod("p", "c"), objects: []runtime.Object{claim("c").Request("r", "gpu").Allocated("n1", driver+"/n1/a-small").ReservedFor(other).Obj()}, ungated: true},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(env *testEnv) {
				env.want("PreFilter", env.evaluate(c.pod).preFilter, c.want)
				gate := ""
				if status := env.PreEnqueue(env.ctx, c.pod); !status.IsSuccess() {
					gate = statusText(status)
				}
				if c.ungated {
					env.want("PreEnqueue", gate, "")
				} else {
					env.want("PreEnqueue", gate, c.want)
				}
			}, c.objects...)
		})
	}
}

func TestFilter(t *testing.T) {
	nodes := []*v1.Node{node("n1"), node("n2")}
	slicesOfBoth := []runtime.Object{class(), gpus("n1").Obj(), gpus("n2").Obj()}
	tainted := gpus("n2").Taint("maintenance", "", resourceapi.DeviceTaintEffectNoSchedule).Obj()
	for name, c := range map[string]struct {
		claims  []*fixture.ResourceClaimBuilder
		objects []runtime.Object
		given   map[string][]string
		reject  map[string]string
	}{
		"the first device of each node": {
			claims: []*fixture.ResourceClaimBuilder{claim("c").Request("r", "gpu")},
			given:  map[string][]string{"n1": {"a-small"}, "n2": {"a-small"}},
		},
		"the device that the selectors match": {
			claims: []*fixture.ResourceClaimBuilder{claim("c").Request("r", "gpu", modelA, large)},
			given:  map[string][]string{"n1": {"a-large"}, "n2": {"a-large"}},
		},
		"two devices of one request": {
			claims: []*fixture.ResourceClaimBuilder{claim("c").Request("r", "gpu", large).Count(2)},
			given:  map[string][]string{"n1": {"a-large", "b-large"}, "n2": {"a-large", "b-large"}},
		},
		"all devices that match": {
			claims: []*fixture.ResourceClaimBuilder{claim("c").Request("r", "gpu", modelA).All()},
			given:  map[string][]string{"n1": {"a-small", "a-large"}, "n2": {"a-small", "a-large"}},
		},
		"two claims get different devices": {
			claims: []*fixture.ResourceClaimBuilder{claim("c").Request("r", "gpu", modelA), claim("d").Request("r", "gpu", modelA)},
			given:  map[string][]string{"n1": {"a-small", "a-large"}, "n2": {"a-small", "a-large"}},
		},
		"of two claims none is allocated where one cannot be": {
			claims: []*fixture.ResourceClaimBuilder{claim("c").Request("r", "gpu", modelB), claim("d").Request("r", "gpu", modelB)},
			reject: map[string]string{"n1": cannotAllocate, "n2": cannotAllocate},
		},
		"devices of one request match in an attribute": {
			claims: []*fixture.ResourceClaimBuilder{claim("c").Request("one", "gpu", large).Request("two", "gpu").MatchAttribute("gpu.example.com/model")},
			given:  map[string][]string{"n1": {"a-large", "a-small"}, "n2": {"a-large", "a-small"}},
		},
		"a device that another claim has is taken": {
			claims:  []*fixture.ResourceClaimBuilder{claim("c").Request("r", "gpu", modelB)},
			objects: []runtime.Object{claim("x").Request("r", "gpu").Allocated("n1", driver+"/n1/b-large").Obj()},
			given:   map[string][]string{"n2": {"b-large"}}, reject: map[string]string{"n1": cannotAllocate},
		},
		"admin access takes no device": {
			claims:  []*fixture.ResourceClaimBuilder{claim("c").Request("r", "gpu", modelB).AdminAccess()},
			objects: []runtime.Object{claim("x").Request("r", "gpu").Allocated("n1", driver+"/n1/b-large").Obj()},
			given:   map[string][]string{"n1": {"b-large"}, "n2": {"b-large"}},
		},
		"an allocated claim keeps its node": {
			claims: []*fixture.ResourceClaimBuilder{claim("c").Request("r", "gpu").Allocated("n2", driver+"/n2/a-small")},
			reject: map[string]string{"n1": notAvailable},
		},
		"an incomplete pool has no devices": {
			claims:  []*fixture.ResourceClaimBuilder{claim("c").Request("r", "other")},
			objects: []runtime.Object{fixture.DeviceClass("other").Selector(`device.driver == "other.example.com"`).Obj(), fixture.ResourceSlice("n1", "other.example.com").Pool("n1", 1, 2).Device("d", nil).Obj()},
			reject:  map[string]string{"n1": cannotAllocate, "n2": cannotAllocate},
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects := append(append([]runtime.Object{}, slicesOfBoth...), c.objects...)
			var names []string
			for _, claim := range c.claims {
				objects, names = append(objects, claim.Obj()), append(names, claim.Obj().Name)
			}
			runTest(t, func(env *testEnv) {
				a := env.evaluate(pod("p", names...), nodes...)
				env.want("PreFilter", a.preFilter, "")
				env.want("devices", a.given, orEmpty(c.given))
				env.want("rejections", a.rejections, orEmpty(c.reject))
			}, objects...)
		})
	}

	t.Run("a tainted device needs a toleration", func(t *testing.T) {
		runTest(t, func(env *testEnv) {
			strict, tolerant := env.evaluate(pod("p", "strict"), nodes...), env.evaluate(pod("p", "tolerant"), nodes...)
			env.want("without", strict.rejections, map[string]string{"n2": cannotAllocate})
			env.want("with", tolerant.rejections, map[string]string{})
		}, class(), gpus("n1").Obj(), tainted, claim("strict").Request("r", "gpu", modelB).Obj(),
			claim("tolerant").Request("r", "gpu", modelB).Tolerates("maintenance", "").Obj())
	})
	t.Run("a selector that fails ends the attempt with an error", func(t *testing.T) {
		runTest(t, func(env *testEnv) {
			a := env.evaluate(pod("p", "c"), nodes[0])
			env.want("rejections", a.rejections["n1"][:len("Error: ")], "Error: ")
		}, class(), gpus("n1").Obj(), claim("c").Request("r", "gpu", `device.attributes["gpu.example.com"].missing == "a"`).Obj())
	})
	t.Run("a search that takes longer than the timeout is an error", func(t *testing.T) {
		runTest(t, func(env *testEnv) {
			ctx, cancel := context.WithTimeout(env.ctx, time.Second)
			defer cancel()
			<-ctx.Done()
			env.ctx = ctx
			a := env.evaluate(pod("p", "c"), nodes[0])
			env.want("rejections", a.rejections, map[string]string{"n1": "Error: node n1: timed out trying to allocate devices"})
		}, class(), gpus("n1").Obj(), claim("c").Request("r", "gpu").Obj())
	})
}

func orEmpty[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return m
}

func TestScorePrefersEarlierAlternatives(t *testing.T) {
	runTest(t, func(env *testEnv) {
		a := env.evaluate(pod("p", "c", "plain"), node("n1"), node("n2"))
		env.want("devices", a.given, map[string][]string{"n1": {"b-large", "a-small"}, "n2": {"a-large", "a-small"}})
		env.want("scores", a.score, map[string]int64{"n1": 8, "n2": 7})
	}, class(), gpus("n1").Obj(), gpus("n2").Mutate(func(s *resourceapi.ResourceSlice) { s.Spec.Devices = s.Spec.Devices[:2] }).Obj(),
		claim("c").RequestFirst("r", fixture.SubRequest("best", "gpu", 1, modelB), fixture.SubRequest("good", "gpu", 1, modelA, large)).Obj(),
		claim("plain").Request("r", "gpu").Obj())
}
