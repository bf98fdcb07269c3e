package main

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
)

const testDriver = "gpu.example.com"

func options(t *testing.T, change func(*publishOptions)) publishOptions {
	t.Helper()
	devices, err := parseDevices([]byte("[{name: gpu, count: 2}]"))
	if err != nil {
		t.Fatal(err)
	}
	o := publishOptions{driver: testDriver, devices: devices, selector: labels.SelectorFromSet(labels.Set{"type": "kwok"})}
	if change != nil {
		change(&o)
	}
	return o
}

func testNode(name string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + "-uid"), Labels: map[string]string{"type": "kwok"}}}
}

// state describes the ResourceSlices by name: the owner's UID, the pool's generation, and
// the number of devices.
func state(t *testing.T, client *fake.Clientset) map[string]string {
	t.Helper()
	list, err := client.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, slice := range list.Items {
		owner := types.UID("nobody")
		if len(slice.OwnerReferences) > 0 {
			owner = slice.OwnerReferences[0].UID
		}
		all[slice.Name] = fmt.Sprintf("owner %s, generation %d, %d devices", owner, slice.Spec.Pool.Generation, len(slice.Spec.Devices))
	}
	return all
}

// expectState waits until the ResourceSlices are as wanted.
func expectState(t *testing.T, client *fake.Clientset, want map[string]string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		return cmp.Equal(want, state(t, client)), nil
	})
	if err != nil {
		t.Fatalf("(-want,+got):\n%s", cmp.Diff(want, state(t, client)))
	}
}

// start publishes until the returned function is called, which returns the error.
func start(t *testing.T, client *fake.Clientset, o publishOptions) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- publish(ctx, client, o, io.Discard) }()
	return func() error {
		cancel()
		return <-ended
	}
}

func TestSlicesFollowTheNodes(t *testing.T) {
	other := testNode("other")
	other.Labels = nil
	client := fake.NewClientset(testNode("n0"), other)
	stop := start(t, client, options(t, nil))
	n0, n1 := "owner n0-uid, generation 1, 2 devices", "owner n1-uid, generation 1, 2 devices"
	expectState(t, client, map[string]string{"n0-gpu.example.com": n0})

	nodes := client.CoreV1().Nodes()
	if _, err := nodes.Create(t.Context(), testNode("n1"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	expectState(t, client, map[string]string{"n0-gpu.example.com": n0, "n1-gpu.example.com": n1})

	// A node of the same name gets a ResourceSlice that the garbage collector keeps.
	again := testNode("n1")
	again.UID = "another-uid"
	if _, err := nodes.Update(t.Context(), again, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	expectState(t, client, map[string]string{"n0-gpu.example.com": n0, "n1-gpu.example.com": "owner another-uid, generation 1, 2 devices"})

	if err := nodes.Delete(t.Context(), "n1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expectState(t, client, map[string]string{"n0-gpu.example.com": n0})

	// A ResourceSlice that somebody deletes is created again.
	if err := client.ResourceV1().ResourceSlices().Delete(t.Context(), "n0-gpu.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expectState(t, client, map[string]string{"n0-gpu.example.com": n0})

	if err := stop(); err != nil {
		t.Fatal(err)
	}
	expectState(t, client, map[string]string{})
}

func TestOtherDevicesAreANewGeneration(t *testing.T) {
	client := fake.NewClientset(testNode("n0"))
	once := options(t, func(o *publishOptions) { o.once = true })
	if err := publish(t.Context(), client, once, io.Discard); err != nil {
		t.Fatal(err)
	}
	once.devices = once.devices[:1]
	if err := publish(t.Context(), client, once, io.Discard); err != nil {
		t.Fatal(err)
	}
	expectState(t, client, map[string]string{"n0-gpu.example.com": "owner n0-uid, generation 2, 1 devices"})
}

func TestSlicesAreKeptOnRequest(t *testing.T) {
	client := fake.NewClientset(testNode("n0"))
	stop := start(t, client, options(t, func(o *publishOptions) { o.keep = true }))
	want := map[string]string{"n0-gpu.example.com": "owner n0-uid, generation 1, 2 devices"}
	expectState(t, client, want)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	expectState(t, client, want)
}

func TestOnlyItsOwnSlicesAreChanged(t *testing.T) {
	slice := func(name, node, driver string, ours bool) runtime.Object {
		s := &resourceapi.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       resourceapi.ResourceSliceSpec{Driver: driver, NodeName: &node},
		}
		if ours {
			s.Labels = map[string]string{managedBy: program}
		}
		return s
	}
	client := fake.NewClientset(
		testNode("n0"), testNode("n1"),
		slice("left-behind", "gone", testDriver, true),
		slice("of-another-driver", "n1", "nic.example.com", true),
		slice("of-a-plugin", "real", testDriver, false),
		slice("in-the-way", "n0", testDriver, false),
	)
	err := publish(t.Context(), client, options(t, func(o *publishOptions) { o.once = true }), io.Discard)
	const want = "node n0 has the ResourceSlice in-the-way of driver gpu.example.com, which another program made: use another --driver, or delete it"
	if err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %q", err, want)
	}
	none := "owner nobody, generation 0, 0 devices"
	expectState(t, client, map[string]string{
		"of-another-driver": none, "of-a-plugin": none, "in-the-way": none,
		"n1-gpu.example.com": "owner n1-uid, generation 1, 2 devices",
	})
}
