package devices_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	gocmp "github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	toolscache "k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/devices"
	"github.com/berthdev/berth/test/support/fakecluster"
	"github.com/berthdev/berth/test/support/fixture"
)

// testEnv is Devices over a fake cluster, in virtual time.
type testEnv struct {
	*devices.Devices
	t       *testing.T
	cluster *fakecluster.Cluster
	// gate delays the events of claims.
	gate gate

	mu sync.Mutex
	// queued are the events that the queue got.
	queued []string
	// requeued is the filter of the last event that was for some pods only.
	requeued func(*v1.Pod) bool
	// changes counts the calls of Changed, and announced is that number at the last event.
	changes, announced int
	// onEvent, if not nil, is called by the queue.
	onEvent func(happened fwk.ClusterEvent)
	// onSliceEvent, if not nil, gets the events of slices.
	onSliceEvent func(happened fwk.ClusterEvent, before, after any)
}

func runInVirtualTime(t *testing.T, test func(env *testEnv), objects ...runtime.Object) {
	synctest.Test(t, func(t *testing.T) {
		env := &testEnv{t: t, cluster: fakecluster.New(objects...)}
		env.Devices = devices.New(devices.Options{Client: env.cluster, Clock: clock.RealClock{}, Queue: env, Changed: env.changed})
		factory := informers.NewSharedInformerFactory(env.cluster, 0)
		resource := factory.Resource().V1()
		synced, err := env.UseInformers(devices.Informers{
			Claims: gatedInformer{resource.ResourceClaims().Informer(), &env.gate}, Slices: resource.ResourceSlices().Informer(),
			Classes: resource.DeviceClasses().Informer(), Rules: resource.DeviceTaintRules().Informer(),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer factory.Shutdown()
		defer cancel()
		defer env.gate.open()
		factory.Start(ctx.Done())
		toolscache.WaitForCacheSync(ctx.Done(), synced...)
		synctest.Wait()
		env.takeEvents()
		test(env)
		env.gate.open()
		synctest.Wait()
	})
}

func (env *testEnv) changed() {
	env.mu.Lock()
	defer env.mu.Unlock()
	env.changes++
}

// Event implements devices.EventQueue. It checks that reads return what the event says,
// and that Changed was called before.
func (env *testEnv) Event(_ context.Context, happened fwk.ClusterEvent, before, after any, only func(*v1.Pod) bool) {
	env.mu.Lock()
	env.queued = append(env.queued, describe(happened, before, after))
	if only != nil {
		env.requeued = only
	} else if env.changes <= env.announced {
		env.t.Errorf("%s: Changed was not called before the event", describe(happened, before, after))
	}
	env.announced = env.changes
	onEvent := env.onEvent
	env.mu.Unlock()
	if env.onSliceEvent != nil && happened.Resource == fwk.ResourceSlice {
		env.onSliceEvent(happened, before, after)
	}
	switch obj := after.(type) {
	case *resourceapi.ResourceClaim:
		if read, err := env.ResourceClaims().Get(obj.Namespace, obj.Name); err != nil || before == nil && read.UID != obj.UID {
			env.t.Errorf("the event of claim %s comes before reads return it: %v", obj.Name, err)
		}
	case *resourceapi.ResourceSlice:
		list, _ := env.ResourceSlices().ListWithDeviceTaintRules()
		if !slices.ContainsFunc(list, func(s *resourceapi.ResourceSlice) bool { return s.Name == obj.Name }) {
			env.t.Errorf("the event of slice %s comes before reads return it", obj.Name)
		}
	case *resourceapi.DeviceClass:
		if env.DeviceClassResolver().GetDeviceClass(v1.ResourceName(resourceapi.ResourceDeviceClassPrefix+obj.Name)) == nil {
			env.t.Errorf("the event of class %s comes before its resource is known", obj.Name)
		}
	}
	if onEvent != nil {
		onEvent(happened)
	}
}

// describe returns "ResourceClaimUpdate a: d0 -> free", for example.
func describe(happened fwk.ClusterEvent, before, after any) string {
	if happened.CustomLabel != "" {
		return happened.CustomLabel
	}
	name, old := describeObject(before)
	newName, current := describeObject(after)
	return fmt.Sprintf("%s %s: %s -> %s", strings.TrimPrefix(happened.Label(), "resource.k8s.io/"), cmp.Or(name, newName), old, current)
}

// describeObject returns the name of an object, and its devices.
func describeObject(obj any) (name, state string) {
	switch obj := obj.(type) {
	case *resourceapi.ResourceClaim:
		if obj.Status.Allocation == nil {
			return obj.Name, "free"
		}
		for _, result := range obj.Status.Allocation.Devices.Results {
			state += result.Device
		}
		for _, consumer := range obj.Status.ReservedFor {
			state += " for " + consumer.Name
		}
		return obj.Name, state
	case *resourceapi.ResourceSlice:
		var devices []string
		for _, device := range obj.Spec.Devices {
			text := device.Name
			for _, taint := range device.Taints {
				text += "+" + taint.Key
			}
			devices = append(devices, text)
		}
		return obj.Name, strings.Join(devices, " ")
	case metav1.Object:
		return obj.GetName(), "exists"
	}
	return "", "none"
}

func (env *testEnv) takeEvents() []string {
	env.mu.Lock()
	defer env.mu.Unlock()
	events := env.queued
	env.queued = nil
	return events
}

// wantEvents checks the events since the last call.
func (env *testEnv) wantEvents(what string, events ...string) {
	env.t.Helper()
	env.want("events "+what, env.takeEvents(), events)
}

func (env *testEnv) want(what string, got, want any) {
	env.t.Helper()
	if diff := gocmp.Diff(want, got); diff != "" {
		env.t.Errorf("%s (-want,+got):\n%s", what, diff)
	}
}

// wantError checks the text of an error; "" for none.
func (env *testEnv) wantError(what string, err error, text string) {
	env.t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	env.want("error "+what, got, text)
}

func (env *testEnv) claim(name string) *resourceapi.ResourceClaim {
	env.t.Helper()
	claim, err := env.ResourceClaims().Get("default", name)
	if err != nil {
		env.t.Fatal(err)
	}
	return claim
}

// state describes a claim: its devices and the pods that it is reserved for.
func (env *testEnv) state(name string) string {
	env.t.Helper()
	_, state := describeObject(env.claim(name))
	return state
}

// devices lists the devices that claims hold exclusively.
func (env *testEnv) devices() []string {
	env.t.Helper()
	state, err := env.ResourceClaims().GatherAllocatedState()
	if err != nil {
		env.t.Fatal(err)
	}
	names := []string{}
	for id := range state.AllocatedDevices {
		names = append(names, id.Device.String())
	}
	slices.Sort(names)
	return names
}

// signal records an allocation in flight of devices for a claim.
func (env *testEnv) signal(name string, devices ...string) {
	env.t.Helper()
	claim := env.claim(name).DeepCopy()
	claim.Status.Allocation = allocation(devices...)
	if err := env.ResourceClaims().SignalClaimPendingAllocation(claim.UID, claim); err != nil {
		env.t.Fatal(err)
	}
}

func (env *testEnv) bind(name, pod string, devices ...string) (*resourceapi.ResourceClaim, error) {
	env.t.Helper()
	var result *resourceapi.AllocationResult
	if len(devices) > 0 {
		result = allocation(devices...)
	}
	return env.BindClaim(env.t.Context(), env.claim(name), result, fixture.Pod(pod).Obj())
}

func allocation(devices ...string) *resourceapi.AllocationResult {
	var full []string
	for _, device := range devices {
		full = append(full, "gpu.example.com/n1/"+device)
	}
	return fixture.Allocation("n1", full...)
}

// replaceClaim changes a claim in the API server, as another client would.
func (env *testEnv) replaceClaim(name string, change func(*resourceapi.ResourceClaim)) {
	env.t.Helper()
	for _, claim := range env.cluster.ResourceClaims() {
		if claim.Name == name {
			change(&claim)
			env.cluster.Replace(&claim)
			return
		}
	}
	env.t.Fatalf("no claim %s in the cluster", name)
}

func (env *testEnv) removeClaim(name string) {
	env.t.Helper()
	env.replaceClaim(name, func(c *resourceapi.ResourceClaim) { c.Finalizers = nil })
	if err := env.cluster.ResourceV1().ResourceClaims("default").Delete(env.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		env.t.Fatal(err)
	}
}

func uidOf(name string) types.UID { return types.UID(name) }

// gate delays or drops the events of an informer.
type gate struct {
	mu     sync.Mutex
	opened chan struct{} // nil while the gate is open
	// dropped says that no event passes. version is that of the informer, "" for its own.
	dropped bool
	version string
	// handler is what the events are delivered to.
	handler toolscache.ResourceEventHandler
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened == nil {
		g.opened = make(chan struct{})
	}
}

// open lets delayed events pass.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened != nil {
		close(g.opened)
		g.opened = nil
	}
}

// drop drops all events from now on, as an informer without a watch does.
func (g *gate) drop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dropped = true
}

func (g *gate) setVersion(version string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.version = version
}

// pass calls deliver when the gate is open, unless it drops events.
func (g *gate) pass(deliver func()) {
	g.mu.Lock()
	opened, dropped := g.opened, g.dropped
	g.mu.Unlock()
	if opened != nil {
		<-opened
	}
	if !dropped {
		deliver()
	}
}

// gatedInformer delivers events through a gate.
type gatedInformer struct {
	toolscache.SharedIndexInformer
	gate *gate
}

func (i gatedInformer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	i.gate.handler = h
	return i.SharedIndexInformer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(obj any, initial bool) { i.gate.pass(func() { h.OnAdd(obj, initial) }) },
		UpdateFunc: func(before, after any) { i.gate.pass(func() { h.OnUpdate(before, after) }) },
		DeleteFunc: func(obj any) { i.gate.pass(func() { h.OnDelete(obj) }) },
	})
}

func (i gatedInformer) LastSyncResourceVersion() string {
	i.gate.mu.Lock()
	defer i.gate.mu.Unlock()
	return cmp.Or(i.gate.version, i.SharedIndexInformer.LastSyncResourceVersion())
}
