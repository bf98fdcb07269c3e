package main

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berthdev/berth/scheduler/sandbox/log"
	replaying "github.com/berthdev/berth/test/replay/run"
	"github.com/berthdev/berth/test/support/fixture"
)

// What the shapes with devices have in common. As in scheduler_perf's
// SchedulingWithResourceClaimTemplate each node has ten devices, of which five are allocated.
const (
	deviceDriver     = "gpu.example.com"
	devicesPerNode   = 10
	allocatedPerNode = 5
	deviceResource   = "example.com/gpu"
	// deviceRate is the rate of --loads=open: each pod needs up to five writes, so that both
	// schedulers and the API server do not keep up with --rates on two cores.
	deviceRate = 20
)

// deviceOptions are those of a shape whose pods get devices.
type deviceOptions struct {
	// expression selects devices in the pod's claim; "" selects all of the class.
	expression string
	// extended has pods request a resource that the class backs, instead of a claim. Whole
	// processes run it alone: the binding makes the claim, which a log does not have.
	extended bool
}

// class returns the class of all devices.
func (d *deviceOptions) class() *resourceapi.DeviceClass {
	class := fixture.DeviceClass(deviceDriver).Selector(fmt.Sprintf("device.driver == %q", deviceDriver))
	if d.extended {
		class.ExtendedResource(deviceResource)
	}
	return class.Obj()
}

// slice returns the devices of a node, half of each model.
func (d *deviceOptions) slice(node string) *resourceapi.ResourceSlice {
	slice := fixture.ResourceSlice(node, deviceDriver)
	for i := range devicesPerNode {
		slice.Device(deviceName(i), fixture.Attributes{"model": fmt.Sprint("model-", i%2), "index": i}, "memory", "80Gi")
	}
	return slice.Obj()
}

func deviceName(i int) string { return fmt.Sprint("gpu-", i) }

// allocated returns a claim that has the first devices of a node.
func (d *deviceOptions) allocated(node string) *resourceapi.ResourceClaim {
	var names []string
	for i := range allocatedPerNode {
		names = append(names, deviceDriver+"/"+node+"/"+deviceName(i))
	}
	return fixture.ResourceClaim(namespace+"/held-"+node).Request("r", deviceDriver).Count(allocatedPerNode).Allocated(node, names...).Obj()
}

// prepare makes a pod request one device, and returns the claim that it needs first; nil for
// none. The claim is not made by a controller from a template, so that the load is the same
// for all sides.
func (d *deviceOptions) prepare(pod *corev1.Pod) *resourceapi.ResourceClaim {
	container := &pod.Spec.Containers[0]
	if d.extended {
		one := resource.MustParse("1")
		container.Resources.Requests[deviceResource] = one
		container.Resources.Limits = corev1.ResourceList{deviceResource: one}
		return nil
	}
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &pod.Name}}
	container.Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	var expressions []string
	if d.expression != "" {
		expressions = append(expressions, d.expression)
	}
	return fixture.ResourceClaim(pod.Namespace+"/"+pod.Name).Request("gpu", deviceDriver, expressions...).Obj()
}

// objects are the class, and the devices and the claim of each node.
func (d *deviceOptions) objects(nodes int) []runtime.Object {
	objects := []runtime.Object{d.class()}
	for i := range nodes {
		objects = append(objects, d.slice(nodeName(i)), d.allocated(nodeName(i)))
	}
	return objects
}

// writeAllocated writes the log of a shape with devices: each pod to schedule comes after its
// claim, and before the claim's allocation. The allocations are those of Berth's Reserve,
// since a replay runs none.
func (s shape) writeAllocated(o options, write func(op) error) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	scheduler, err := replaying.NewBerth(ctx, replaying.Config{Profile: replaying.DefaultProfile()})
	if err != nil {
		return err
	}
	cluster := replaying.NewCluster(scheduler)
	do := func(kind string, object log.Object) (*replaying.Outcome, error) {
		outcome, err := cluster.Do(log.Op{Kind: log.Kind(kind), Object: object})
		return outcome, errors.Join(err, write(op{Op: kind, Object: object}))
	}
	for op := range s.ops(o) {
		if _, err := do(op.Op, op.Object.(log.Object)); err != nil {
			return err
		}
	}
	claims := scheduler.Framework().SharedDRAManager().ResourceClaims()
	for i := range s.pods(s.withOverrides(o), "drain") {
		pod := s.pendingPod(i)
		claim := s.devices.prepare(pod)
		if _, err := do("apply", claim); err != nil {
			return err
		}
		outcome, err := do("schedule", pod)
		if err == nil {
			err = outcome.Err
		}
		if err == nil {
			err = scheduler.Reserve(ctx, pod, outcome.Node)
		}
		if err != nil {
			return err
		}
		claim = claim.DeepCopy()
		claim.Status.Allocation = claims.GetPendingAllocation(claim.UID)
		claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{fixture.Consumer(pod)}
		if _, err := do("apply", claim); err != nil {
			return err
		}
	}
	return nil
}

// createDevices creates the class, and the devices of all nodes.
func (s *testEnv) createDevices(ctx context.Context, d *deviceOptions) error {
	api := s.client.ResourceV1()
	if _, err := api.DeviceClasses().Create(ctx, withoutServerFields(d.class()), metav1.CreateOptions{}); err != nil {
		return err
	}
	return s.each(ctx, s.options.nodes, func(ctx context.Context, i int) error {
		if _, err := api.ResourceSlices().Create(ctx, withoutServerFields(d.slice(nodeName(i))), metav1.CreateOptions{}); err != nil {
			return err
		}
		return s.createAllocated(ctx, d.allocated(nodeName(i)))
	})
}

// createAllocated creates a claim and writes its status.
func (s *testEnv) createAllocated(ctx context.Context, claim *resourceapi.ResourceClaim) error {
	api := s.client.ResourceV1().ResourceClaims(claim.Namespace)
	created, err := api.Create(ctx, withoutServerFields(claim), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	created.Status = claim.Status
	_, err = api.UpdateStatus(ctx, created, metav1.UpdateOptions{})
	return err
}

// withoutServerFields removes what only the API server sets.
func withoutServerFields[T interface {
	runtime.Object
	metav1.Object
}](object T) T {
	object.SetResourceVersion("")
	object.SetUID("")
	object.SetCreationTimestamp(metav1.Time{})
	return object
}
