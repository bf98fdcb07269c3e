package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/devices"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/plugins/dynamicresources"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/swapmatrix"
)

// The same places and changes for a pod with a claim, in a profile with DynamicResources in
// front of the other plugins: after each change the pod has one device on its node, its
// claim is reserved for it, and no device is allocated to it without being written. In the
// end the devices of a deleted pod are free.
func TestEveryStateOfAPodWithAClaimUnderEveryProfileChange(t *testing.T) {
	for where, p := range swapmatrix.Places {
		for what, ch := range swapmatrix.Changes {
			t.Run(where+", "+what, func(t *testing.T) {
				runTest(t, func(env *testEnv) {
					c := newSwapCase(env)
					c.useDevices()
					c.runCase(newTestPlace(where, p), ch)
					c.wantOneDevice()
				}, deviceObjects()...)
			})
		}
	}
}

// deviceObjects are a node, devices on it and on the node that comes later, and a claim.
func deviceObjects() []runtime.Object {
	objects := []runtime.Object{
		node("n1"), podNamespace(), fixture.DeviceClass("gpu").Obj(),
		fixture.ResourceClaim("a").Request("r", "gpu").Obj(),
	}
	for _, name := range []string{"n1", "n2"} {
		slice := fixture.ResourceSlice(name, "gpu.example.com").Device("d0", fixture.Attributes{}).Device("d1", fixture.Attributes{})
		objects = append(objects, slice.Obj())
	}
	return objects
}

// deviceKinds returns the kinds about devices that the API server serves: all or none,
// depending on the objects.
func deviceKinds(objects []runtime.Object) devices.Served {
	if slices.ContainsFunc(objects, func(o runtime.Object) bool { _, is := o.(*resourceapi.DeviceClass); return is }) {
		return devices.AllServed()
	}
	return devices.Served{}
}

// useDevices adds DynamicResources to the profile, and a claim to the pod.
func (c *swapCase) useDevices() {
	c.options.Registry[dynamicresources.Name] = plugins.InTree()[dynamicresources.Name]
	p := c.object.Spec.Plugins
	for _, set := range []*v1alpha1.PluginSet{&p.PreEnqueue, &p.PreFilter, &p.Filter, &p.PostFilter, &p.Score, &p.Reserve, &p.PreBind} {
		swapmatrix.Enable(set, dynamicresources.Name)
	}
	c.newPod = func() *v1.Pod {
		pod := fixture.Pod("a").SchedulerName("p").ResourceClaim("a").Obj()
		pod.Status.NominatedNodeName = nominatedPod().Status.NominatedNodeName
		return pod
	}
}

// wantOneDevice expects that the claim has one device on the pod's node and is reserved for
// the pod, that no other device is allocated, and that the device is free when the pod and
// its claim are gone.
func (c *swapCase) wantOneDevice() {
	claim := c.cluster.ResourceClaims()[0]
	if claim.Status.Allocation == nil || len(claim.Status.Allocation.Devices.Results) != 1 || len(claim.Status.ReservedFor) != 1 {
		c.t.Fatalf("status of the claim: %+v, want one device that is reserved for the pod", claim.Status)
	}
	if pool := claim.Status.Allocation.Devices.Results[0].Pool; pool != c.nodeOf("a") || claim.Status.ReservedFor[0].Name != "a" {
		c.t.Errorf("a device of %s, reserved for %s, and the pod is on %s", pool, claim.Status.ReservedFor[0].Name, c.nodeOf("a"))
	}
	claims := c.devices.ResourceClaims()
	if inFlight := claims.GetPendingAllocation(claim.UID); inFlight != nil {
		c.t.Errorf("in flight after the bind: %v", inFlight.Devices.Results)
	}
	c.want("allocated devices", c.allocatedDevices(), "1")
	claim.Status = resourceapi.ResourceClaimStatus{} // as the controller of claims does after the pod
	_, err := c.cluster.ResourceV1().ResourceClaims(claim.Namespace).UpdateStatus(c.ctx, &claim, metav1.UpdateOptions{})
	c.must(err)
	synctest.Wait()
	c.want("allocated devices after the pod", c.allocatedDevices(), "0")
}

// allocatedDevices returns the number of devices that are allocated or in flight.
func (c *swapCase) allocatedDevices() string {
	all, err := c.devices.ResourceClaims().ListAllAllocatedDevices()
	c.must(err)
	return fmt.Sprint(all.Len())
}
