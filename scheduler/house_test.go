package scheduler_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/intake"
	"github.com/berthdev/berth/scheduler/plugins"
)

// patience bounds every wait for something that must come.
const patience = 20 * time.Second

var podsResource = v1.SchemeGroupVersion.WithResource("pods")

// house is the whole scheduler before an API server that is a map, on a clock
// that stands still unless it is stepped.
type house struct {
	*testing.T
	*scheduler.Scheduler
	client   *fake.Clientset
	clock    *testingclock.FakeClock
	ledger   *decision.Ledger
	registry framework.Registry
	events   chan string
	version  atomic.Int64

	mu sync.Mutex
	// deleted are the pods that Berth deleted, by UID, in order.
	deleted []string
	// graceful lets a deleted pod stay, terminating, until it is finished.
	graceful bool
	// onDelete is asked before a pod is deleted; may be nil.
	onDelete func(pod *v1.Pod) error
	// recreated is called with pods that are gone; may be nil.
	recreated func(pod *v1.Pod)
}

func newHouse(t *testing.T, registry framework.Registry, objects ...runtime.Object) *house {
	t.Helper()
	h := &house{
		T: t, client: fake.NewClientset(objects...), clock: testingclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
		registry: registry, events: make(chan string, 10000),
	}
	h.ledger = decision.NewLedger(h.clock.Now)
	h.client.PrependReactor("create", "pods", h.bind)
	h.client.PrependReactor("delete", "pods", h.delete)
	h.client.PrependReactor("patch", "pods", h.patch)
	h.Scheduler = scheduler.New(scheduler.Options{
		Client: h.client, Informers: intake.NewInformers(h.client), Registry: registry,
		RecorderFor: func(string) events.EventRecorderLogger { return &events.FakeRecorder{Events: h.events} },
		Unsupported: plugins.Unsupported(registry, func(string) bool { return false }),
		Ledger:      h.ledger, Clock: h.clock, Log: logr.Discard(),
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, start := range []func(context.Context) error{scheduler.Warm{Scheduler: h.Scheduler}.Start, h.Scheduler.Start} {
		running.Go(func() {
			if err := start(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() { cancel(); running.Wait() })
	return h
}

// bind puts the pod of a Binding on its node.
func (h *house) bind(action clienttesting.Action) (bool, runtime.Object, error) {
	if action.GetSubresource() != "binding" {
		return false, nil, nil
	}
	binding := action.(clienttesting.CreateAction).GetObject().(*v1.Binding)
	pod, err := h.pod(binding.Namespace + "/" + binding.Name)
	if err != nil {
		return true, nil, err
	}
	pod.Spec.NodeName = binding.Target.Name
	return true, binding, h.update(pod)
}

func (h *house) patch(action clienttesting.Action) (bool, runtime.Object, error) {
	request := action.(clienttesting.PatchActionImpl)
	pod, err := h.pod(request.Namespace + "/" + request.Name)
	if err != nil {
		return true, nil, err
	}
	before, err := json.Marshal(pod)
	if err != nil {
		return true, nil, err
	}
	after, err := strategicpatch.StrategicMergePatch(before, request.Patch, pod)
	if err != nil {
		return true, nil, err
	}
	patched := &v1.Pod{}
	if err := json.Unmarshal(after, patched); err != nil {
		return true, nil, err
	}
	return true, patched, h.update(patched)
}

// update stores the newest version of an object: informers pass over versions
// that carry no new number.
func (h *house) update(object runtime.Object) error {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	accessor.SetResourceVersion(fmt.Sprint(h.version.Add(1)))
	resource := podsResource
	if _, ok := object.(*v1.Node); ok {
		resource = v1.SchemeGroupVersion.WithResource("nodes")
	}
	return h.client.Tracker().Update(resource, object, accessor.GetNamespace())
}

func (h *house) delete(action clienttesting.Action) (bool, runtime.Object, error) {
	request := action.(clienttesting.DeleteActionImpl)
	pod, err := h.pod(request.Namespace + "/" + request.Name)
	if err != nil {
		return true, nil, err
	}
	if uid := request.DeleteOptions.Preconditions.UID; *uid != pod.UID {
		return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, pod.Name, fmt.Errorf("its UID is %s", pod.UID))
	}
	h.mu.Lock()
	onDelete, graceful := h.onDelete, h.graceful
	h.mu.Unlock()
	if onDelete != nil {
		if err := onDelete(pod); err != nil {
			return true, nil, err
		}
	}
	h.mu.Lock()
	h.deleted = append(h.deleted, string(pod.UID))
	h.mu.Unlock()
	if graceful {
		now := metav1.NewTime(h.clock.Now())
		pod.DeletionTimestamp = &now
		return true, nil, h.update(pod)
	}
	return true, nil, h.finish(pod)
}

// finish makes a pod be gone.
func (h *house) finish(pod *v1.Pod) error {
	err := h.client.Tracker().Delete(podsResource, pod.Namespace, pod.Name)
	h.mu.Lock()
	recreated := h.recreated
	h.mu.Unlock()
	if recreated != nil {
		recreated(pod)
	}
	return err
}

// pod reads a pod as the API server has it.
func (h *house) pod(key string) (*v1.Pod, error) {
	namespace, name, _ := strings.Cut(key, "/")
	object, err := h.client.Tracker().Get(podsResource, namespace, name)
	if err != nil {
		return nil, err
	}
	return object.(*v1.Pod).DeepCopy(), nil
}

// add creates an object as somebody outside would.
func (h *house) add(objects ...runtime.Object) {
	h.Helper()
	for _, object := range objects {
		if err := h.client.Tracker().Add(object); err != nil {
			h.Fatal(err)
		}
	}
}

// profile lets a profile run.
func (h *house) profile(name string, plugins *v1alpha1.Plugins) {
	h.Helper()
	blueprint, rejection := compile.Profile(compile.Input{
		Profile: &v1alpha1.SchedulingProfile{
			ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1},
			Spec:       v1alpha1.SchedulingProfileSpec{Plugins: plugins},
		},
		Registry: h.registry, Version: "test",
	})
	if rejection != nil {
		h.Fatal(rejection.Message())
	}
	h.ledger.Open(name)
	if err := h.Profiles().Apply(h.Context(), blueprint); err != nil {
		h.Fatal(err)
	}
}

// eventually waits until what holds; got describes what was seen last.
func (h *house) eventually(what string, holds func() (ok bool, got any)) {
	h.Helper()
	var got any
	err := wait.PollUntilContextTimeout(h.Context(), time.Millisecond, patience, true, func(context.Context) (ok bool, err error) {
		ok, got = holds()
		return ok, nil
	})
	if err != nil {
		h.Fatalf("%s: not within %v; last seen: %v", what, patience, got)
	}
}

// on waits until a pod is on a node.
func (h *house) on(key, node string) {
	h.Helper()
	h.eventually(fmt.Sprintf("pod %s is on %s", key, node), func() (bool, any) {
		pod, err := h.pod(key)
		if err != nil {
			return false, err
		}
		return pod.Spec.NodeName == node, fmt.Sprintf("node %q, %v", pod.Spec.NodeName, pod.Status.Conditions)
	})
}

// message waits until the pod's PodScheduled condition says text.
func (h *house) message(key, text string) {
	h.Helper()
	h.eventually(fmt.Sprintf("pod %s is told %q", key, text), func() (bool, any) {
		message := h.says(key)
		return strings.Contains(message, text), message
	})
}

// says returns the message of the pod's PodScheduled condition.
func (h *house) says(key string) string {
	pod, err := h.pod(key)
	if err != nil {
		return err.Error()
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled {
			return c.Message
		}
	}
	return ""
}

// counts waits until the profile's pods are where they should be.
func (h *house) counts(profile string, want decision.QueueCounts) {
	h.Helper()
	h.eventually(fmt.Sprintf("the pods of %s are where they should be", profile), func() (bool, any) {
		page, _ := h.ledger.Page(profile, 0)
		return page.Queue == want, fmt.Sprintf("%+v, want %+v", page.Queue, want)
	})
}

// victims waits until the profile berth counts n of them: evictions are over.
func (h *house) victims(n int64) {
	h.Helper()
	h.eventually(fmt.Sprintf("the profile counts %d victims", n), func() (bool, any) {
		page, _ := h.ledger.Page("berth", 0)
		return page.Totals.Victims == n, page.Totals
	})
}

// evicted returns the UIDs of the pods that Berth deleted so far.
func (h *house) evicted() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string{}, h.deleted...)
}
