package noderesources

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/devices"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fakecluster"
	"github.com/berthdev/berth/test/support/fixture"
)

// card is an extended resource.
const card = "example.com/card"

// deviceHandle is a Handle with Devices.
type deviceHandle struct {
	fwk.Handle
	devices framework.Devices
}

func (h deviceHandle) Devices() framework.Devices { return h.devices }

// withDevices calls test with a Handle whose Devices have read objects.
func withDevices(t *testing.T, test func(t *testing.T, handle fwk.Handle), objects ...runtime.Object) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cluster := fakecluster.New(objects...)
		d := devices.New(devices.Options{Client: cluster, Clock: clock.RealClock{}})
		factory := informers.NewSharedInformerFactory(cluster, 0)
		kinds := factory.Resource().V1()
		synced, err := d.UseInformers(devices.Informers{
			Claims: kinds.ResourceClaims().Informer(), Slices: kinds.ResourceSlices().Informer(), Classes: kinds.DeviceClasses().Informer(),
		})
		if err != nil {
			t.Fatal(err)
		}
		stop := make(chan struct{})
		factory.Start(stop)
		toolscache.WaitForCacheSync(stop, synced...)
		synctest.Wait()
		test(t, deviceHandle{devices: d})
		close(stop)
		factory.Shutdown()
	})
}

// cards returns a node's slice with four devices, of which two have model a.
func cards(node string) *resourceapi.ResourceSlice {
	b := fixture.ResourceSlice(node, "card.example.com")
	for i, model := range []string{"a", "a", "b", "b"} {
		b.Device("d"+string(rune('0'+i)), fixture.Attributes{"model": model})
	}
	return b.Obj()
}

func TestFitLeavesResourcesOfDeviceClassesToDevices(t *testing.T) {
	backing := fixture.DeviceClass("cards").ExtendedResource(card).Obj()
	pod := fixture.Pod("p").Requests(card, "3").Obj()
	for name, c := range map[string]struct {
		classes []runtime.Object
		node    *fixture.NodeBuilder
		// want is the reason for the rejection; "" for none.
		want string
	}{
		"no class backs it":                  {nil, fixture.Node("n"), "Insufficient " + card},
		"a class backs it":                   {[]runtime.Object{backing}, fixture.Node("n"), ""},
		"the node has none of it":            {[]runtime.Object{backing}, fixture.Node("n").Capacity(card, "0"), ""},
		"the node has too little of it":      {[]runtime.Object{backing}, fixture.Node("n").Capacity(card, "2"), "Insufficient " + card},
		"a class of the name that is needed": {[]runtime.Object{fixture.DeviceClass("cards").Obj()}, fixture.Node("n"), "Insufficient " + card},
	} {
		t.Run(name, func(t *testing.T) {
			withDevices(t, func(t *testing.T, handle fwk.Handle) {
				args := configv1.NodeResourcesFitArgs{}
				DefaultFit(&args)
				plugin, err := NewFit(t.Context(), &args, handle)
				if err != nil {
					t.Fatal(err)
				}
				fit, state, node := plugin.(*Fit), framework.NewCycleState(), newNodeInfo(c.node)
				_, _ = fit.PreFilter(t.Context(), state, pod, nil)
				if status := fit.Filter(t.Context(), state, pod, node); status.Message() != c.want {
					t.Errorf("got %v, want %q", status, c.want)
				}
				if shortages := fit.InsufficientResources(nil, state, pod, node); len(shortages) > 0 != (c.want != "") {
					t.Errorf("shortages %v, want %q", shortages, c.want)
				}
				backed := handle.(deviceHandle).devices.DeviceClassResolver().GetDeviceClass(card) != nil
				if _, status := fit.SignPod(t.Context(), pod); status.IsSuccess() == backed {
					t.Errorf("SignPod: %v, a class backs the resource: %v", status, backed)
				}
			}, c.classes...)
		})
	}
}

func TestScoresOfResourcesThatDevicesBack(t *testing.T) {
	pod := fixture.Pod("p").Requests("cpu", "1", card, "1").Obj()
	modelA := fixture.DeviceClass("cards").ExtendedResource(card).Selector(`device.attributes["card.example.com"].model == "a"`).Obj()
	allocated := fixture.ResourceClaim("c").Request("r", "cards").Allocated("n1", "card.example.com/n1/d0").Obj()
	least := argsWithStrategy(configv1.LeastAllocated, configv1.ResourceSpec{Name: card, Weight: 1})
	for name, c := range map[string]struct {
		objects []runtime.Object
		node    *fixture.NodeBuilder
		want    int64
	}{
		"three of four devices stay free":      {[]runtime.Object{fixture.DeviceClass("cards").ExtendedResource(card).Obj(), cards("n1")}, fixture.Node("n1"), 75},
		"an allocated device is not free":      {[]runtime.Object{fixture.DeviceClass("cards").ExtendedResource(card).Obj(), cards("n1"), allocated}, fixture.Node("n1"), 50},
		"devices of the class count":           {[]runtime.Object{modelA, cards("n1")}, fixture.Node("n1"), 50},
		"devices of other nodes do not":        {[]runtime.Object{modelA, cards("n2")}, fixture.Node("n1"), 0},
		"the node's own amount comes first":    {[]runtime.Object{modelA, cards("n1")}, fixture.Node("n1").Capacity(card, "10"), 90},
		"a selector that fails counts as none": {[]runtime.Object{fixture.DeviceClass("cards").ExtendedResource(card).Selector(`device.attributes["card.example.com"].missing == "a"`).Obj(), cards("n1")}, fixture.Node("n1"), 0},
		"a resource that no class backs":       {[]runtime.Object{cards("n1")}, fixture.Node("n1"), 0},
		"devices of all nodes count": {[]runtime.Object{
			modelA, fixture.ResourceSlice("", "card.example.com").Device("x", fixture.Attributes{"model": "a"}).Device("y", fixture.Attributes{"model": "a"}).Obj(),
		}, fixture.Node("n1"), 50},
	} {
		t.Run(name, func(t *testing.T) {
			withDevices(t, func(t *testing.T, handle fwk.Handle) {
				args := least
				DefaultFit(&args)
				plugin, err := NewFit(t.Context(), &args, handle)
				if err != nil {
					t.Fatal(err)
				}
				fit, state, node := plugin.(*Fit), framework.NewCycleState(), newNodeInfo(c.node)
				if status := fit.PreScore(t.Context(), state, pod, nil); !status.IsSuccess() {
					t.Fatal(status)
				}
				got, status := fit.Score(t.Context(), state, pod, node)
				again, _ := fit.Score(t.Context(), framework.NewCycleState(), pod, node)
				if got != c.want || again != c.want || !status.IsSuccess() {
					t.Errorf("score %d, %d without PreScore, %v, want %d", got, again, status, c.want)
				}
			}, c.objects...)
		})
	}
}

func TestBalanceCountsDevices(t *testing.T) {
	withDevices(t, func(t *testing.T, handle fwk.Handle) {
		args := configv1.NodeResourcesBalancedAllocationArgs{Resources: []configv1.ResourceSpec{{Name: "cpu", Weight: 1}, {Name: card, Weight: 1}}}
		plugin, err := NewBalanced(t.Context(), &args, handle)
		if err != nil {
			t.Fatal(err)
		}
		balanced, node := plugin.(*Balanced), newNodeInfo(fixture.Node("n1").Capacity("cpu", "4"))
		scores := map[string]int64{}
		for cpu, amount := range map[string]string{"as many cards as cores": "1", "more cores than cards": "4"} {
			pod, state := fixture.Pod("p").Requests("cpu", amount, card, "1").Obj(), framework.NewCycleState()
			if status := balanced.PreScore(t.Context(), state, pod, nil); !status.IsSuccess() {
				t.Fatal(status)
			}
			scores[cpu], _ = balanced.Score(t.Context(), state, pod, node)
		}
		if diff := cmp.Diff(map[string]int64{"as many cards as cores": 75, "more cores than cards": 56}, scores); diff != "" {
			t.Errorf("scores (-want,+got):\n%s", diff)
		}
	}, fixture.DeviceClass("cards").ExtendedResource(card).Obj(), cards("n1"))
}

func TestHintsOfDeviceClasses(t *testing.T) {
	pod := fixture.Pod("p").Requests(card, "1", resourceapi.ResourceDeviceClassPrefix+"cards", "1").Obj()
	backing, idle := fixture.DeviceClass("other").ExtendedResource(card).Obj(), fixture.DeviceClass("other").Obj()
	for name, c := range map[string]struct {
		before, after *resourceapi.DeviceClass
		want          fwk.QueueingHint
	}{
		"a class that backs a resource":             {nil, backing, fwk.Queue},
		"a class of a resource's name":              {nil, fixture.DeviceClass("cards").Obj(), fwk.Queue},
		"another class":                             {nil, idle, fwk.QueueSkip},
		"a class begins to back it":                 {idle, backing, fwk.Queue},
		"a class ceases to back it":                 {backing, idle, fwk.QueueSkip},
		"another field of the class changes":        {backing, backing.DeepCopy(), fwk.QueueSkip},
		"a class of the resource's name is changed": {fixture.DeviceClass("cards").Obj(), fixture.DeviceClass("cards").Obj(), fwk.QueueSkip},
	} {
		t.Run(name, func(t *testing.T) {
			var before any
			if c.before != nil {
				before = c.before
			}
			if got, err := isSchedulableAfterDeviceClassChange(klog.Background(), pod, before, c.after); got != c.want || err != nil {
				t.Errorf("got %v, %v, want %v", got, err, c.want)
			}
		})
	}
}
