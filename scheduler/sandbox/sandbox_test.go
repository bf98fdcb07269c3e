package sandbox_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientset "k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/sandbox"
	"github.com/berthdev/berth/test/support/fixture"
)

// newDefaultScheduler returns a Scheduler with kube-scheduler's default profile on an empty cluster.
func newDefaultScheduler(t *testing.T) *sandbox.Scheduler {
	t.Helper()
	return newScheduler(t, plugins.InTree())
}

// newScheduler is newDefaultScheduler with the plugins of registry.
func newScheduler(t *testing.T, registry framework.Registry) *sandbox.Scheduler {
	t.Helper()
	profile := &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: "batch"}}
	blueprint, rejection := compile.Profile(compile.Input{Profile: profile, Registry: registry})
	if rejection != nil {
		t.Fatal(rejection.Message())
	}
	s, err := sandbox.New(t.Context(), sandbox.Options{Blueprint: blueprint, Registry: registry, Unsupported: plugins.Unsupported, Preempt: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAPodCountsOnceItIsAssumed(t *testing.T) {
	s := newDefaultScheduler(t)
	s.SetNode(nil, fixture.Node("n1").Capacity("cpu", "3").Obj())
	pod := fixture.Pod("first").Requests("cpu", "2").Obj()
	for range 2 { // an attempt alone changes nothing
		if found := s.Attempt(t.Context(), pod); found.Err != nil || found.Placement.Node != "n1" {
			t.Fatalf("%+v, want n1", found)
		}
	}
	if err := s.Assume(pod, "n1"); err != nil {
		t.Fatal(err)
	}
	second := fixture.Pod("second").Requests("cpu", "2").Obj()
	if found := s.Attempt(t.Context(), second); found.Err == nil {
		t.Errorf("the second pod goes to %s, which has too little cpu", found.Placement.Node)
	}
	s.RemovePod(pod)
	if found := s.Attempt(t.Context(), second); found.Err != nil {
		t.Errorf("the pod does not fit although the first was removed: %v", found.Err)
	}
}

func TestVictimsStayUntilTheCallerRemovesThem(t *testing.T) {
	s := newDefaultScheduler(t)
	s.SetNode(nil, fixture.Node("n1").Capacity("cpu", "2").Obj())
	low := fixture.Pod("low").Requests("cpu", "2").On("n1").Obj()
	s.SetPod(nil, low)
	high := fixture.Pod("high").Priority(9).Requests("cpu", "2").Obj()
	for range 2 {
		found := s.Attempt(t.Context(), high)
		if found.Nominated != "n1" || found.Plan == nil || !slices.Equal(found.Plan.Victims, []*v1.Pod{low}) {
			t.Fatalf("%+v, want low as the victim on n1", found)
		}
	}
	s.RemovePod(low)
	if found := s.Attempt(t.Context(), fixture.Pod("other").Requests("cpu", "2").Obj()); found.Err == nil {
		t.Error("a pod got the node for which another is nominated")
	}
	if found := s.Attempt(t.Context(), high); found.Err != nil {
		t.Errorf("the pod does not fit on its nominated node: %v", found.Err)
	}
}

func TestAGateIsNamed(t *testing.T) {
	s := newDefaultScheduler(t)
	if plugin, status := s.RunPreEnqueuePlugins(t.Context(), fixture.Pod("free").Obj()); plugin != "" {
		t.Errorf("a pod without gates is rejected by %s: %s", plugin, status.Message())
	}
	plugin, status := s.RunPreEnqueuePlugins(t.Context(), fixture.Pod("gated").SchedulingGate("quota").Obj())
	if plugin != "SchedulingGates" || status.IsSuccess() {
		t.Errorf("a pod with a gate is rejected by %q: %v", plugin, status)
	}
}

func TestNoRequestReachesAnAPIServer(t *testing.T) {
	_, err := newDefaultScheduler(t).Framework().ClientSet().CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err == nil || !strings.Contains(err.Error(), "there is no API server") {
		t.Errorf("a plugin's request was answered: %v", err)
	}
}

func TestOnTrialNothingIsWritten(t *testing.T) {
	var requests []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { requests = append(requests, r.Method) }))
	defer server.Close()
	config, client := sandbox.NewRefusingClient(&restclient.Config{Host: server.URL})
	own, err := clientset.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]clientset.Interface{"the Handle's client": client, "a client that a plugin makes": own} {
		pods := c.CoreV1().Pods("shop")
		_, _ = pods.Get(t.Context(), "web", metav1.GetOptions{})
		_, create := pods.Create(t.Context(), fixture.Pod("web").Obj(), metav1.CreateOptions{})
		_, patch := pods.Patch(t.Context(), "web", "application/json", []byte("{}"), metav1.PatchOptions{})
		for _, err := range []error{create, patch, pods.Delete(t.Context(), "web", metav1.DeleteOptions{})} {
			if !errors.Is(err, sandbox.ErrOnTrial) || !strings.Contains(err.Error(), "/api/v1/namespaces/shop/pods") {
				t.Errorf("%s: %v, want the name of the refused request", name, err)
			}
		}
	}
	if !slices.Equal(requests, []string{"GET", "GET"}) {
		t.Errorf("the server got %q, want two reads", requests)
	}
}

// The queue holds such pods too: they would be bound without their devices.
func TestAPodWithAnUnsupportedFieldIsNotTried(t *testing.T) {
	registry := plugins.InTree()
	delete(registry, "DynamicResources")
	s := newScheduler(t, registry)
	s.SetNode(nil, fixture.Node("n1").Obj())
	pod := fixture.Pod("member").ResourceClaim("gpu").Obj()
	if found, want := s.Attempt(t.Context(), pod), "unsupported: spec.resourceClaims"; found.Err == nil || !strings.HasPrefix(found.Err.Error(), want) {
		t.Errorf("%v, want %s", found.Err, want)
	}
}

// What a class backs can change between two attempts of one pod, and no verdict of the first
// counts in the second.
func TestDeviceClassesComeAndGo(t *testing.T) {
	s := newDefaultScheduler(t)
	s.SetNode(nil, fixture.Node("n1").Capacity("cpu", "9", "memory", "9Gi", "pods", "9").Obj())
	if err := s.SetObject(fixture.ResourceSlice("n1", "gpu.example.com").Device("d0", nil).Obj()); err != nil {
		t.Fatal(err)
	}
	pod := fixture.Pod("p").Requests("example.com/gpu", "1").Obj()
	class, idle := fixture.DeviceClass("gpus").ExtendedResource("example.com/gpu").Obj(), fixture.DeviceClass("gpus").Obj()
	for i, c := range []struct {
		class *resourceapi.DeviceClass
		fits  bool
	}{{idle, false}, {class, true}, {idle, false}, {class, true}} {
		if err := s.SetObject(c.class); err != nil {
			t.Fatal(err)
		}
		if found := s.Attempt(t.Context(), pod); (found.Err == nil) != c.fits {
			t.Errorf("attempt %d: %v, want that it fits: %v", i, found.Err, c.fits)
		}
	}
}

// Devices that an attempt has reserved are not free for later pods, until the claim that the
// cluster has for them is deleted.
func TestDevicesAreTakenOnceTheyAreReserved(t *testing.T) {
	class := fixture.DeviceClass("gpus").ExtendedResource("example.com/gpu").Obj()
	claim := func(name string) *resourceapi.ResourceClaim {
		return fixture.ResourceClaim(name).Request("r", "gpus").Obj()
	}
	for name, c := range map[string]struct {
		pod *v1.Pod
		// written is the claim as the API server has it after the pod is bound.
		written *resourceapi.ResourceClaim
	}{
		"by a claim": {fixture.Pod("first").ResourceClaim("c").Obj(), fixture.ResourceClaim("c").Request("r", "gpus").Allocated("n1", "gpu.example.com/n1/d0").Obj()},
		"as an extended resource": {
			fixture.Pod("first").Requests("example.com/gpu", "1").Obj(),
			fixture.ResourceClaim("first-extended").OwnedBy(fixture.Pod("first").Obj()).Annotation(resourceapi.ExtendedResourceClaimAnnotation, "true").
				Request("r", "gpus").Allocated("n1", "gpu.example.com/n1/d0").Obj(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newDefaultScheduler(t)
			s.SetNode(nil, fixture.Node("n1").Capacity("cpu", "9", "memory", "9Gi", "pods", "9").Obj())
			set := func(objects ...runtime.Object) {
				for _, object := range objects {
					if err := s.SetObject(object); err != nil {
						t.Fatal(err)
					}
				}
			}
			set(class, fixture.ResourceSlice("n1", "gpu.example.com").Device("d0", nil).Obj(), claim("c"), claim("d"))
			other := fixture.Pod("other").ResourceClaim("d").Obj()
			fits := func() bool { return s.Attempt(t.Context(), other).Err == nil }
			if found := s.Attempt(t.Context(), c.pod); found.Err != nil {
				t.Fatal(found.Err)
			}
			if !fits() {
				t.Fatal("the attempt alone has taken the device")
			}
			s.Attempt(t.Context(), c.pod)
			if err := errors.Join(s.Assume(c.pod, "n1"), s.Reserve(t.Context(), c.pod, "n1")); err != nil {
				t.Fatal(err)
			}
			if fits() {
				t.Error("the reserved device is free")
			}
			set(c.written)
			if fits() {
				t.Error("the device of the written claim is free")
			}
			if err := s.RemoveObject(c.written); err != nil {
				t.Fatal(err)
			}
			if !fits() {
				t.Error("the device is taken after the claim is deleted")
			}
		})
	}
}
