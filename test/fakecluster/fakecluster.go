// Package fakecluster is a clientset for tests whose pods behave as the API
// server's do where the scheduler depends on it: every write has a new
// resource version, a UID or a version that is not the stored one is a
// conflict, a pod is bound once, and a Binding's annotations arrive with it.
// Tests can make any call fail, before or after it took effect.
package fakecluster

import (
	"context"
	"slices"
	"strconv"
	"sync"

	v1 "k8s.io/api/core/v1"
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
	// controlled says that claims are served.
	volumeController bool
}

// Fault makes calls fail.
type Fault struct {
	// Verb is bind, patch, get or delete; empty: all of them.
	Verb string
	// Err is the answer; nil leaves the call alone, but for Before.
	Err error
	// Times is how many calls are concerned; 0 means one.
	Times int
	// Committed says that the call takes effect all the same.
	Committed bool
	// Before is called ahead of the call, without a lock; may be nil.
	Before func()
}

// New returns a cluster that holds objects.
func New(objects ...runtime.Object) *Cluster {
	clientset := fake.NewClientset()
	c := &Cluster{Interface: clientset, tracker: clientset.Tracker(), version: 100}
	for _, object := range objects {
		c.Apply(object)
	}
	return c
}

// SlowDown lets pods on nodes take their time: deleted, they terminate, and are
// there until somebody removes them.
func (c *Cluster) TerminateGracefully() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.graceful = true
}

// Inject makes the next calls fail; faults are used up in order.
func (c *Cluster) Inject(faults ...Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, fault := range faults {
		fault.Times = max(fault.Times, 1)
		c.faults = append(c.faults, &fault)
	}
}

// Heal takes back the faults that are not used up.
func (c *Cluster) ClearFaults() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = nil
}

// Apply adds an object, or replaces it, as somebody else would.
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

// Change lets somebody else change a pod.
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

// Remove deletes a pod.
func (c *Cluster) DeletePod(pod *v1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.tracker.Delete(podResource, pod.Namespace, pod.Name); err != nil {
		panic(err)
	}
}

// Pod returns the stored pod, nil when there is none.
func (c *Cluster) Pod(pod *v1.Pod) *v1.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.storedPod(pod.Namespace, pod.Name)
}

// Take returns the bind, patch, get and delete calls so far, and begins anew.
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

func (c *Cluster) setResourceVersion(object metav1.Object) {
	c.version++
	object.SetResourceVersion(strconv.Itoa(c.version))
}

// call notes one call, lets it fail where a fault says so, and does it.
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

// IsWatchListSemanticsUnSupported tells informers to list and then to watch,
// as the clientset below does.
func (c *Cluster) IsWatchListSemanticsUnSupported() bool { return true }
