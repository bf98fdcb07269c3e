package eventhandlers

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/queue"
)

const (
	deviceGroup = "resource.k8s.io/v1"
	gpu         = "example.com/gpu"
)

// classBacking returns a DeviceClass that backs an extended resource; none for "".
func classBacking(name, resource string) *resourcev1.DeviceClass {
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if resource != "" {
		class.Spec.ExtendedResourceName = &resource
	}
	return class
}

// deviceEnv are EventHandlers and a queue that holds pods which request a resource that
// DeviceClasses back.
type deviceEnv struct {
	*EventHandlers
	t       *testing.T
	client  *fake.Clientset
	classes *DeviceClasses
	queue   *queue.Queue
	synced  func(context.Context) bool
}

// newDeviceEnv returns a deviceEnv with two pods, of which "wants" requests the resource
// gpu, and an API server that serves DeviceClasses and has the given ones.
func newDeviceEnv(t *testing.T, classes ...runtime.Object) *deviceEnv {
	w := &deviceEnv{t: t, client: clientServing(map[string]string{deviceGroup: "deviceclasses resourceclaims"}, classes...)}
	w.queue = queue.New(queue.Options{Clock: clock.RealClock{}})
	var err error
	if w.classes, err = NewDeviceClasses(w.client.Discovery()); err != nil {
		t.Fatal(err)
	}
	rules := (&testEnv{}).rules()
	rules.Hold = func(pod *v1.Pod) queue.Hold {
		if requests(pod, gpu) && w.classes.Backs(gpu) {
			return queue.Hold{Reason: queue.Unsupported, Message: "devices"}
		}
		return queue.Hold{}
	}
	w.queue.SetProfile(t.Context(), "p", rules)
	w.queue.Add(t.Context(), unscheduledPod("wants").Requests(gpu, "1").Obj())
	w.queue.Add(t.Context(), unscheduledPod("other").Obj())
	w.EventHandlers = New(Options{
		PendingPods: &PendingPods{Cache: cache.New(), Queue: w.queue, WaitingPods: framework.NewWaitingPods(clock.RealClock{}), Log: logr.Discard()},
		Binding:     &testEnv{}, Profiles: profileP{}, DeviceClasses: w.classes,
	})
	return w
}

// profileP implements Profiles.
type profileP struct{}

func (profileP) Names() []string                                 { return []string{"p"} }
func (profileP) NamespaceChanged(string, labels.Set, labels.Set) {}

// start starts the informers.
func (w *deviceEnv) start() {
	w.t.Helper()
	factory := NewInformers(w.client, Trim(false))
	var err error
	if w.synced, err = w.Register(factory); err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(w.t.Context())
	factory.Start(ctx.Done())
	w.t.Cleanup(factory.Shutdown)
	w.t.Cleanup(stop)
}

// held returns which of the two pods are held.
func (w *deviceEnv) held() []string {
	held := sets.New[string]()
	for _, e := range w.queue.Entries() {
		if e.Place == queue.Held {
			held.Insert(e.Name)
		}
	}
	return sets.List(held)
}

// expectHeld waits until exactly these pods are held.
func (w *deviceEnv) expectHeld(when string, want ...string) {
	w.t.Helper()
	err := wait.PollUntilContextTimeout(w.t.Context(), time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		return cmp.Equal(w.held(), append([]string{}, want...)), nil
	})
	if err != nil {
		w.t.Errorf("%s: %q are held, want %q", when, w.held(), want)
	}
}

// writeDeviceClass creates, updates or deletes a DeviceClass; nil after means that it is
// deleted.
func (w *deviceEnv) writeDeviceClass(before, after *resourcev1.DeviceClass) {
	w.t.Helper()
	classes := w.client.ResourceV1().DeviceClasses()
	var err error
	switch {
	case before == nil:
		_, err = classes.Create(w.t.Context(), after, metav1.CreateOptions{})
	case after == nil:
		err = classes.Delete(w.t.Context(), before.Name, metav1.DeleteOptions{})
	default:
		_, err = classes.Update(w.t.Context(), after, metav1.UpdateOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestPodsThatRequestDevicesAreHeldWhileAClassBacksThem(t *testing.T) {
	backing, idle := classBacking("gpus", gpu), classBacking("gpus", "")
	for name, c := range map[string]struct {
		classes       []runtime.Object
		before, after *resourcev1.DeviceClass
		// heldAtFirst and held are the pods held before and after the change.
		heldAtFirst, held []string
	}{
		"a class is created":                         {nil, nil, backing, nil, []string{"wants"}},
		"a class of another resource is created":     {nil, nil, classBacking("nets", "example.com/net"), nil, nil},
		"the last class is deleted":                  {[]runtime.Object{backing}, backing, nil, []string{"wants"}, nil},
		"one of two classes is deleted":              {[]runtime.Object{backing, classBacking("more", gpu)}, backing, nil, []string{"wants"}, []string{"wants"}},
		"a class begins to back the resource":        {[]runtime.Object{idle}, idle, backing, nil, []string{"wants"}},
		"a class ceases to back the resource":        {[]runtime.Object{backing}, backing, idle, []string{"wants"}, nil},
		"a class backs another resource from now on": {[]runtime.Object{backing}, backing, classBacking("gpus", "example.com/net"), []string{"wants"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDeviceEnv(t, c.classes...)
			w.start()
			if !w.synced(t.Context()) {
				t.Fatal("the handlers are not synced")
			}
			if diff := cmp.Diff(append([]string{}, c.heldAtFirst...), w.held()); diff != "" {
				t.Fatalf("held when the handlers are synced (-want +got):\n%s", diff)
			}
			w.writeDeviceClass(c.before, c.after)
			w.expectHeld("after the change", c.held...)
		})
	}
}

// Between two versions of one class the resource is backed at any moment. Otherwise a
// pod that is tried in between would be bound without its devices.
func TestAnUpdateOfADeviceClassNeverStopsItsBacking(t *testing.T) {
	backing, other := classBacking("gpus", gpu), classBacking("gpus", "example.com/net")
	for name, c := range map[string]struct {
		before, after *resourcev1.DeviceClass
		changed       []string
	}{
		"the resource stays":                   {backing, backing.DeepCopy(), nil},
		"one resource ends and another begins": {backing, other, []string{gpu, "example.com/net"}},
		"neither version backs any":            {classBacking("gpus", ""), classBacking("gpus", ""), nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := &DeviceClasses{backing: map[string]int{}}
			d.replace(nil, c.before)
			if diff := cmp.Diff(c.changed, d.replace(c.before, c.after)); diff != "" {
				t.Errorf("changed resources (-want +got):\n%s", diff)
			}
			if resource := backedBy(c.after); resource != "" && !d.Backs(resource) {
				t.Errorf("%s is not backed", resource)
			}
		})
	}
}

// A pod that is tried before the classes are known would be bound without its devices.
func TestNotSyncedBeforeDeviceClassesAreKnown(t *testing.T) {
	w := newDeviceEnv(t, classBacking("gpus", gpu))
	var answers atomic.Bool
	w.client.PrependReactor("list", "deviceclasses", func(clienttesting.Action) (bool, runtime.Object, error) {
		return !answers.Load(), nil, errors.New("the server is busy")
	})
	w.start()
	ctx, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	if w.synced(ctx) {
		t.Error("the handlers are synced, and no DeviceClass is known")
	}
	answers.Store(true)
	if !w.synced(t.Context()) {
		t.Fatal("the handlers are not synced")
	}
	if diff := cmp.Diff([]string{"wants"}, w.held()); diff != "" {
		t.Errorf("held when the handlers are synced (-want +got):\n%s", diff)
	}
}

func TestDeviceClassesAreWatchedWhereTheyAreServed(t *testing.T) {
	for name, kinds := range map[string]map[string]string{
		"the group is not served": {"v1": "pods"},
		"the kind is not served":  {deviceGroup: "resourceclaims"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDeviceEnv(t)
			w.client = clientServing(kinds)
			classes, err := NewDeviceClasses(w.client.Discovery())
			if err != nil {
				t.Fatal(err)
			}
			w.options.DeviceClasses = classes
			w.start()
			if !w.synced(t.Context()) {
				t.Fatal("the handlers are not synced")
			}
			for _, action := range w.client.Actions() {
				if action.GetResource().Resource == "deviceclasses" {
					t.Errorf("%s deviceclasses, which are not served", action.GetVerb())
				}
			}
			if classes.Backs(gpu) {
				t.Errorf("%s is backed", gpu)
			}
		})
	}
	t.Run("an API server that does not answer is an error", func(t *testing.T) {
		client := clientServing(nil)
		client.PrependReactor("get", "resource", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("the server is busy")
		})
		if _, err := NewDeviceClasses(client.Discovery()); err == nil || err.Error() != "the server is busy" {
			t.Errorf("error %v", err)
		}
	})
}
