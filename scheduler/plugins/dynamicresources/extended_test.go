package dynamicresources

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fakecluster"
	"github.com/berthdev/berth/test/support/fixture"
)

// card is the extended resource that backing backs.
const card = "example.com/card"

func backing() *resourceapi.DeviceClass {
	return fixture.DeviceClass("gpu").Selector(`device.driver == "gpu.example.com"`).ExtendedResource(card).Obj()
}

// wants returns a container that requests cards; 0 is none.
func wants(name string, cards int) v1.Container {
	c := v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: v1.ResourceList{}}}
	if cards > 0 {
		c.Resources.Requests = fixture.Resources("cpu", "1", card, fmt.Sprint(cards))
	}
	return c
}

func sidecar(c v1.Container) v1.Container {
	c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
	return c
}

// extendedPod returns a pod with init containers and containers.
func extendedPod(name string, init []v1.Container, containers ...v1.Container) *v1.Pod {
	return fixture.Pod(name).Bare().Mutate(func(pod *v1.Pod) { pod.Spec.InitContainers, pod.Spec.Containers = init, containers }).Obj()
}

func withCards(name, cards string) *v1.Node { return fixture.Node(name).Capacity(card, cards).Obj() }

func TestRequestsForExtendedResources(t *testing.T) {
	for name, c := range map[string]struct {
		init, containers []v1.Container
		// requests are "name count", mappings "container request".
		requests, mappings []string
	}{
		"each container has a request": {
			containers: []v1.Container{wants("a", 1), wants("none", 0), wants("b", 2)},
			requests:   []string{"container-0-request-1 1", "container-2-request-1 2"},
			mappings:   []string{"a container-0-request-1", "b container-2-request-1"},
		},
		"an init container uses the devices of containers after it": {
			init: []v1.Container{wants("init", 2)}, containers: []v1.Container{wants("a", 1), wants("b", 2)},
			requests: []string{"container-1-request-1 1", "container-2-request-1 2"},
			mappings: []string{"a container-1-request-1", "b container-2-request-1", "init container-1-request-1", "init container-2-request-1"},
		},
		"an init container that needs more has a request for the rest": {
			init: []v1.Container{wants("init", 3)}, containers: []v1.Container{wants("a", 1)},
			requests: []string{"container-0-request-1 2", "container-1-request-1 1"},
			mappings: []string{"a container-1-request-1", "init container-1-request-1", "init container-0-request-1"},
		},
		"init containers share the request of the largest": {
			init: []v1.Container{wants("small", 2), wants("large", 4)}, containers: []v1.Container{wants("a", 1)},
			requests: []string{"container-1-request-1 3", "container-2-request-1 1"},
			mappings: []string{"a container-2-request-1", "small container-2-request-1", "small container-1-request-1", "large container-2-request-1", "large container-1-request-1"},
		},
		"a sidecar keeps its devices, and one before it is not used by later init containers": {
			init: []v1.Container{sidecar(wants("side", 1)), wants("init", 1)}, containers: []v1.Container{wants("none", 0)},
			requests: []string{"container-0-request-1 1", "container-1-request-1 1"},
			mappings: []string{"side container-0-request-1", "init container-1-request-1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			requests, mappings := deviceRequests(extendedPod("p", c.init, c.containers...), map[v1.ResourceName]string{card: "gpu"})
			var gotRequests, gotMappings []string
			for i := range requests {
				gotRequests = append(gotRequests, fmt.Sprint(requests[i].Name, " ", requests[i].Exactly.Count))
			}
			for i := range mappings {
				gotMappings = append(gotMappings, mappings[i].ContainerName+" "+mappings[i].RequestName)
			}
			if diff := cmp.Diff([][]string{c.requests, c.mappings}, [][]string{gotRequests, gotMappings}); diff != "" {
				t.Errorf("requests and mappings (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestFilterOfExtendedResources(t *testing.T) {
	one := extendedPod("p", nil, wants("a", 1))
	stale := claim("p-extended-resources-x").OwnedBy(one).Annotation(resourceapi.ExtendedResourceClaimAnnotation, "true").Request("container-0-request-1", "gpu").Obj()
	nodes := []*v1.Node{node("n1"), withCards("n2", "4"), withCards("n3", "0")}
	for name, c := range map[string]struct {
		pod     *v1.Pod
		objects []runtime.Object
		// preFilter is the status of PreFilter, if that was not Success.
		preFilter string
		given     map[string][]string
		rejected  map[string]string
	}{
		"devices where the node has none of the resource": {
			pod: one, objects: []runtime.Object{backing(), gpus("n1").Obj(), gpus("n3").Obj()},
			given: map[string][]string{"n1": {"a-small"}, "n3": {"a-small"}},
		},
		"a node without devices": {
			pod: one, objects: []runtime.Object{backing(), gpus("n1").Obj()},
			given: map[string][]string{"n1": {"a-small"}}, rejected: map[string]string{"n3": cannotAllocate},
		},
		"a resource that no class backs": {pod: one, objects: []runtime.Object{class(), gpus("n1").Obj()}, preFilter: "Skip"},
		"the resource with the name of the class": {
			pod:      fixture.Pod("p").Requests(resourceapi.ResourceDeviceClassPrefix+"gpu", "2").Obj(),
			objects:  []runtime.Object{class(), gpus("n1").Obj()},
			given:    map[string][]string{"n1": {"a-small", "a-large"}},
			rejected: map[string]string{"n2": cannotAllocate, "n3": cannotAllocate},
		},
		"another extended resource that a node does not have": {
			pod: fixture.Pod("p").Requests(card, "1", "example.com/other", "1").Obj(), objects: []runtime.Object{backing(), gpus("n1").Obj()},
			rejected: map[string]string{"n1": "UnschedulableAndUnresolvable: cannot fit resource", "n2": "UnschedulableAndUnresolvable: cannot fit resource", "n3": "UnschedulableAndUnresolvable: cannot fit resource"},
		},
		"a claim of an earlier attempt fits no node": {
			pod: one, objects: []runtime.Object{backing(), gpus("n1").Obj(), stale},
			rejected: map[string]string{
				"n1": "UnschedulableAndUnresolvable: cannot schedule extended resource claim", "n2": "UnschedulableAndUnresolvable: cannot schedule extended resource claim",
				"n3": "UnschedulableAndUnresolvable: cannot schedule extended resource claim",
			},
		},
		"a claim beside them": {
			pod:     fixture.Pod("p").ResourceClaim("c").Requests(card, "1").Obj(),
			objects: []runtime.Object{backing(), gpus("n1").Obj(), gpus("n2").Obj(), claim("c").Request("r", "gpu", modelB).Obj()},
			given:   map[string][]string{"n1": {"b-large", "a-small"}, "n2": {"b-large"}}, rejected: map[string]string{"n3": cannotAllocate},
		},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(env *testEnv) {
				a := env.evaluate(c.pod, nodes...)
				env.want("PreFilter", a.preFilter, c.preFilter)
				if c.given == nil {
					c.given = map[string][]string{}
				}
				if c.rejected == nil {
					c.rejected = map[string]string{}
				}
				env.want("devices", a.given, c.given)
				env.want("rejections", a.rejections, c.rejected)
			}, c.objects...)
		})
	}
}

// extendedStatus returns the claim's name and the mappings in a pod's status.
func (env *testEnv) extendedStatus(pod *v1.Pod) (list []string) {
	if status := env.cluster.Pod(pod).Status.ExtendedResourceClaimStatus; status != nil {
		list = append(list, status.ResourceClaimName)
		for _, m := range status.RequestMappings {
			list = append(list, m.ContainerName+" "+m.ResourceName+" "+m.RequestName)
		}
	}
	return list
}

func (env *testEnv) bind(a attempt, node string) error {
	env.t.Helper()
	env.reserve(a, node)
	return env.PreBind(env.ctx, a.state, a.pod, node).AsError()
}

func TestPreBindCreatesTheClaimForExtendedResources(t *testing.T) {
	p := extendedPod("p", nil, wants("a", 1))
	runTest(t, func(env *testEnv) {
		a := env.evaluate(p, node("n1"))
		if err := env.bind(a, "n1"); err != nil {
			t.Fatal(err)
		}
		created := env.cluster.ResourceClaims()
		if len(created) != 1 || !isExtendedClaimOf(p, &created[0]) || !slices.Contains(created[0].Finalizers, resourceapi.Finalizer) {
			t.Fatalf("claims %v", created)
		}
		env.want("claims", env.claims(), []string{created[0].Name + " [a-small] p"})
		env.want("status", env.extendedStatus(p), []string{created[0].Name, "a " + card + " container-0-request-1"})
		synctest.Wait()
		env.want("the next pod", env.evaluate(extendedPod("q", nil, wants("a", 3)), node("n1")).rejections, map[string]string{"n1": cannotAllocate})
		env.want("a smaller one", env.evaluate(extendedPod("q", nil, wants("a", 2)), node("n1")).given, map[string][]string{"n1": {"a-large", "b-large"}})
	}, backing(), gpus("n1").Obj(), p)
}

func TestGivenDevices(t *testing.T) {
	p := fixture.Pod("p").ResourceClaimTemplate("gpu", "template", "p-gpu-x2f").ResourceClaim("shared").Requests(card, "1").Obj()
	want := []string{"gpu=" + driver + "/n1/a-small", "shared=" + driver + "/n1/b-large", card + "=" + driver + "/n1/a-large"}
	runTest(t, func(env *testEnv) {
		a := env.evaluate(p, node("n1"))
		env.reserve(a, "n1")
		env.want("after Reserve", env.GivenDevices(a.state, p), want)
		if status := env.PreBind(env.ctx, a.state, p, "n1"); !status.IsSuccess() {
			t.Fatal(status)
		}
		env.want("after PreBind", env.GivenDevices(a.state, p), want)
		env.want("of another pod", env.GivenDevices(framework.NewCycleState(), pod("q")), []string(nil))
	}, backing(), gpus("n1").Obj(), p, claim("p-gpu-x2f").OwnedBy(p).Request("r", "gpu").Obj(),
		claim("shared").Request("r", "gpu").Allocated("n1", driver+"/n1/b-large").Obj())
}

func TestPreBindCreatesNoClaimWhereTheNodeHasTheResource(t *testing.T) {
	p := fixture.Pod("p").ResourceClaim("c").Requests(card, "1").Obj()
	runTest(t, func(env *testEnv) {
		if err := env.bind(env.evaluate(p, withCards("n1", "2")), "n1"); err != nil {
			t.Fatal(err)
		}
		env.want("claims", env.claims(), []string{"c [b-large] p"})
		env.want("status", env.extendedStatus(p), []string(nil))
	}, backing(), gpus("n1").Obj(), p, claim("c").Request("r", "gpu", modelB).Obj())
}

func TestUnreserveDeletesTheClaimForExtendedResources(t *testing.T) {
	refused := errors.New("refused")
	p := extendedPod("p", nil, wants("a", 3))
	for name, fault := range map[string]*fakecluster.Fault{
		"after PreBind":                    nil,
		"the claim could not be created":   {Verb: "createclaim", Err: refused},
		"the status could not be written":  {Verb: "updateclaimstatus", Err: refused},
		"the pod's status was not written": {Verb: "patch", Err: refused},
		"the finalizer could not be added": {Verb: "updateclaim", Err: refused},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(env *testEnv) {
				a := env.evaluate(p, node("n1"))
				if fault != nil {
					env.cluster.Inject(*fault)
				}
				if err := env.bind(a, "n1"); (err == nil) != (fault == nil) {
					t.Fatalf("PreBind: %v", err)
				}
				env.Unreserve(env.ctx, a.state, p, "n1")
				synctest.Wait()
				env.want("claims", env.claims(), []string(nil))
				env.want("the devices are free", env.evaluate(p, node("n1")).given, map[string][]string{"n1": {"a-small", "a-large", "b-large"}})
			}, backing(), gpus("n1").Obj(), p)
		})
	}
}

func TestPostFilterDeletesTheClaimOfAnEarlierAttempt(t *testing.T) {
	p := extendedPod("p", nil, wants("a", 3))
	stale := claim("p-extended-resources-x").OwnedBy(p).Annotation(resourceapi.ExtendedResourceClaimAnnotation, "true").
		Request("container-0-request-1", "gpu").Count(3).Allocated("n1", driver+"/n1/a-small", driver+"/n1/a-large", driver+"/n1/b-large").Obj()
	runTest(t, func(env *testEnv) {
		a := env.evaluate(p, node("n1"))
		_, status := env.PostFilter(env.ctx, a.state, p, nil)
		env.want("PostFilter", statusText(status), "Unschedulable: deletion of ResourceClaim completed")
		synctest.Wait()
		env.want("claims", env.claims(), []string(nil))
		env.want("the next attempt", env.evaluate(p, node("n1")).given, map[string][]string{"n1": {"a-small", "a-large", "b-large"}})
	}, backing(), gpus("n1").Obj(), p, stale)
}
