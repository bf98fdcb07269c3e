// Package fakecluster is a fake clientset whose pods behave like those of the API
// server where the scheduler depends on it: every write has a new resource version, a
// write with another UID or version than the stored one is a conflict, a pod is bound
// once, and the annotations of a Binding are merged into the pod. So do volumes, claims
// for them, and ResourceClaims. Tests can make any call fail, before or after it takes
// effect.
package fakecluster

import (
	"context"
	"slices"
	"strconv"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/testing"
)

var podResource = v1.SchemeGroupVersion.WithResource("pods")

// Cluster is the clientset.
type Cluster struct {
	kubernetes.Interface
	tracker testing.ObjectTracker

	mu       sync.Mutex
	version  int
	calls    []string
	faults   []*Fault
	graceful bool
	// volumeController says that claims are bound and provisioned.
	volumeController bool
	// mutateClaim changes each ResourceClaim that is written; nil for none.
	mutateClaim func(*resourceapi.ResourceClaim)
}

// Fault makes calls fail.
type Fault struct {
	// Verb is bind, patch, get, delete, volume, claim, or one of a ResourceClaim, such as
	// updateclaimstatus; empty for all calls.
	Verb string
	// Err is the error of the call; nil does not make it fail.
	Err error
	// Times is the number of calls that fail; 0 means one.
	Times int
	// Committed says that the call takes effect although it returns Err.
	Committed bool
	// Before and After, if not nil, are called before and after the call without holding
	// the lock.
	Before, After func()
}

// New returns a cluster with objects.
func New(objects ...runtime.Object) *Cluster {
	clientset := fake.NewClientset()
	c := &Cluster{Interface: clientset, tracker: clientset.Tracker(), version: 100}
	for _, object := range objects {
		c.Apply(object)
	}
	return c
}

// TerminateGracefully makes deleted pods that have a node terminate and stay until the
// test removes them.
func (c *Cluster) TerminateGracefully() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.graceful = true
}

// Inject makes the next calls fail. Faults apply in order.
func (c *Cluster) Inject(faults ...Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, fault := range faults {
		fault.Times = max(fault.Times, 1)
		c.faults = append(c.faults, &fault)
	}
}

// ClearFaults removes the faults that have not been used.
func (c *Cluster) ClearFaults() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = nil
}

// Apply adds or replaces an object, as another client would.
func (c *Cluster) Apply(object runtime.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	object = object.DeepCopyObject()
	meta := object.(metav1.Object)
	c.setResourceVersion(meta)
	if err := c.tracker.Add(object); err != nil {
		panic(err)
	}
}

// UpdatePod changes a pod, as another client would.
func (c *Cluster) UpdatePod(pod *v1.Pod, change func(*v1.Pod)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	stored := c.storedPod(pod.Namespace, pod.Name)
	if stored == nil {
		panic("no pod " + pod.Name)
	}
	change(stored)
	c.updatePod(stored)
}

// DeletePod deletes a pod immediately.
func (c *Cluster) DeletePod(pod *v1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.tracker.Delete(podResource, pod.Namespace, pod.Name); err != nil {
		panic(err)
	}
}

// Pod returns the stored pod; nil if there is none.
func (c *Cluster) Pod(pod *v1.Pod) *v1.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.storedPod(pod.Namespace, pod.Name)
}

// TakeCalls returns the calls since the last TakeCalls.
func (c *Cluster) TakeCalls() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := c.calls
	c.calls = nil
	return calls
}

func (c *Cluster) storedPod(namespace, name string) *v1.Pod {
	object, err := c.tracker.Get(podResource, namespace, name)
	if err != nil {
		return nil
	}
	return object.(*v1.Pod).DeepCopy()
}

func (c *Cluster) updatePod(pod *v1.Pod) {
	c.setResourceVersion(pod)
	if err := c.tracker.Update(podResource, pod, pod.Namespace); err != nil {
		panic(err)
	}
}

// ResourceVersion returns the newest resource version, of whatever object.
func (c *Cluster) ResourceVersion() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strconv.Itoa(c.version)
}

func (c *Cluster) setResourceVersion(object metav1.Object) {
	c.version++
	object.SetResourceVersion(strconv.Itoa(c.version))
}

// call records a call, makes it fail if a fault applies, and executes it.
func (c *Cluster) call(ctx context.Context, verb, what string, do func() error) error {
	c.mu.Lock()
	c.calls = append(c.calls, verb+" "+what)
	var fault *Fault
	for i, f := range c.faults {
		if f.Verb == "" || f.Verb == verb {
			fault = f
			if f.Times--; f.Times == 0 {
				c.faults = slices.Delete(c.faults, i, i+1)
			}
			break
		}
	}
	c.mu.Unlock()
	if fault != nil && fault.Before != nil {
		fault.Before()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if fault != nil && fault.After != nil {
		defer fault.After()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if fault == nil || fault.Err == nil {
		return do()
	}
	if fault.Committed {
		if err := do(); err != nil {
			return err
		}
	}
	return fault.Err
}

// IsWatchListSemanticsUnSupported makes informers list before they watch, as the
// embedded clientset does.
func (c *Cluster) IsWatchListSemanticsUnSupported() bool { return true }

// AddCall adds a line to the calls, so that a test sees when it happened.
func (c *Cluster) AddCall(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, line)
}
