// Package fakecluster is a clientset for tests whose pods behave as the API
// server's do where the scheduler depends on it: every write has a new
// resource version, a UID or a version that is not the stored one is a
// conflict, a pod is bound once, and a Binding's annotations arrive with it.
// Tests can make any call fail, before or after it took effect.
package fakecluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/testing"
)

var podResource = v1.SchemeGroupVersion.WithResource("pods")

// Cluster is the clientset.
type Cluster struct {
	kubernetes.Interface
	tracker testing.ObjectTracker

	mu      sync.Mutex
	version int
	calls   []string
	faults  []*Fault
}

// Fault makes calls fail.
type Fault struct {
	// Verb is bind, patch or get; empty: all of them.
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

// Inject makes the next calls fail; faults are used up in order.
func (c *Cluster) Inject(faults ...Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, fault := range faults {
		fault.Times = max(fault.Times, 1)
		c.faults = append(c.faults, &fault)
	}
}

// Apply adds an object, or replaces it, as somebody else would.
func (c *Cluster) Apply(object runtime.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	object = object.DeepCopyObject()
	meta := object.(metav1.Object)
	c.stamp(meta)
	if err := c.tracker.Add(object); err != nil {
		panic(err)
	}
}

// Change lets somebody else change a pod.
func (c *Cluster) Change(pod *v1.Pod, change func(*v1.Pod)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	stored := c.stored(pod.Namespace, pod.Name)
	if stored == nil {
		panic("no pod " + pod.Name)
	}
	change(stored)
	c.store(stored)
}

// Remove deletes a pod.
func (c *Cluster) Remove(pod *v1.Pod) {
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
	return c.stored(pod.Namespace, pod.Name)
}

// Take returns the bind, patch and get calls so far, and begins anew.
func (c *Cluster) Take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := c.calls
	c.calls = nil
	return calls
}

func (c *Cluster) stored(namespace, name string) *v1.Pod {
	object, err := c.tracker.Get(podResource, namespace, name)
	if err != nil {
		return nil
	}
	return object.(*v1.Pod).DeepCopy()
}

func (c *Cluster) store(pod *v1.Pod) {
	c.stamp(pod)
	if err := c.tracker.Update(podResource, pod, pod.Namespace); err != nil {
		panic(err)
	}
}

func (c *Cluster) stamp(object metav1.Object) {
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

// CoreV1 returns the client whose pods are the cluster's.
func (c *Cluster) CoreV1() corev1.CoreV1Interface { return core{c.Interface.CoreV1(), c} }

type core struct {
	corev1.CoreV1Interface
	cluster *Cluster
}

func (k core) Pods(namespace string) corev1.PodInterface {
	return pods{k.CoreV1Interface.Pods(namespace), k.cluster, namespace}
}

type pods struct {
	corev1.PodInterface
	cluster   *Cluster
	namespace string
}

func (p pods) Get(ctx context.Context, name string, _ metav1.GetOptions) (pod *v1.Pod, err error) {
	err = p.cluster.call(ctx, "get", name, func() error {
		if pod = p.cluster.stored(p.namespace, name); pod == nil {
			return apierrors.NewNotFound(podResource.GroupResource(), name)
		}
		return nil
	})
	return pod, err
}

// precondition says whether a write may go on.
func (p pods) precondition(pod *v1.Pod, name string, uid types.UID, version string) error {
	switch {
	case pod == nil:
		return apierrors.NewNotFound(podResource.GroupResource(), name)
	case uid != "" && uid != pod.UID:
		return apierrors.NewConflict(podResource.GroupResource(), name, fmt.Errorf("the UID is %s, not %s", pod.UID, uid))
	case version != "" && version != pod.ResourceVersion:
		return apierrors.NewConflict(podResource.GroupResource(), name, fmt.Errorf("the version is %s, not %s", pod.ResourceVersion, version))
	}
	return nil
}

func (p pods) Bind(ctx context.Context, binding *v1.Binding, _ metav1.CreateOptions) error {
	return p.cluster.call(ctx, "bind", binding.Name+" "+binding.Target.Name, func() error {
		pod := p.cluster.stored(p.namespace, binding.Name)
		if err := p.precondition(pod, binding.Name, binding.UID, binding.ResourceVersion); err != nil {
			return err
		}
		if pod.DeletionTimestamp != nil || pod.Spec.NodeName != "" {
			return apierrors.NewConflict(podResource.GroupResource(), pod.Name, fmt.Errorf("the pod is deleted or assigned already"))
		}
		pod.Spec.NodeName = binding.Target.Name
		for key, value := range binding.Annotations {
			if pod.Annotations == nil {
				pod.Annotations = map[string]string{}
			}
			pod.Annotations[key] = value
		}
		pod.Status.Conditions = slices.DeleteFunc(pod.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodScheduled })
		pod.Status.Conditions = append(pod.Status.Conditions, v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionTrue})
		p.cluster.store(pod)
		return nil
	})
}

func (p pods) Patch(ctx context.Context, name string, _ types.PatchType, patch []byte, _ metav1.PatchOptions, subresources ...string) (patched *v1.Pod, err error) {
	err = p.cluster.call(ctx, "patch", name, func() error {
		pod := p.cluster.stored(p.namespace, name)
		var pre v1.Pod
		if err := json.Unmarshal(patch, &pre); err != nil {
			return err
		}
		if err := p.precondition(pod, name, pre.UID, pre.ResourceVersion); err != nil {
			return err
		}
		original, err := json.Marshal(pod)
		if err != nil {
			return err
		}
		merged, err := strategicpatch.StrategicMergePatch(original, patch, v1.Pod{})
		if err != nil {
			return err
		}
		patched = &v1.Pod{}
		if err := json.Unmarshal(merged, patched); err != nil {
			return err
		}
		if slices.Equal(subresources, []string{"status"}) {
			patched.Spec = pod.Spec
		}
		p.cluster.store(patched)
		return nil
	})
	return patched, err
}
