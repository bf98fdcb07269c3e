package simulation

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The controller of claims generates claims for pods, ends the reservations of pods that are over,
// and with the last of them the allocation, and deletes what was generated for pods that are gone.
// The driver of devices says whether a device is ready. Each step is one write.
// Source: k8s.io/kubernetes/pkg/controller/resourceclaim.

// deviceSteps are the steps that these could do now.
func (sim *simulation) deviceSteps() (steps []func()) {
	for _, claim := range all[*resourceapi.ResourceClaim](sim.server) {
		if do := sim.deviceClaimStep(claim); do != nil {
			steps = append(steps, do)
		}
		if do := sim.driverStep(claim); do != nil {
			steps = append(steps, do)
		}
	}
	for _, pod := range sim.server.sorted {
		if do := sim.generateStep(pod); do != nil {
			steps = append(steps, do)
		}
	}
	return steps
}

// deviceClaimStep returns what is to do for a claim; nil for nothing.
func (sim *simulation) deviceClaimStep(claim *resourceapi.ResourceClaim) func() {
	valid := slices.DeleteFunc(slices.Clone(claim.Status.ReservedFor), func(r resourceapi.ResourceClaimConsumerReference) bool {
		pod := sim.server.pods[claim.Namespace+"/"+r.Name]
		return pod == nil || pod.UID != r.UID || !isLivePod(pod)
	})
	hasFinalizer := slices.Contains(claim.Finalizers, resourceapi.Finalizer)
	switch {
	case len(valid) < len(claim.Status.ReservedFor):
		return func() {
			sim.count("a reservation ends with its pod")
			sim.logf("controller: device claim %s is reserved for %d pods", describe(claim), len(valid))
			edit(sim.server, claim, func(c *resourceapi.ResourceClaim) {
				if c.Status.ReservedFor = valid; len(valid) == 0 {
					c.Status = resourceapi.ResourceClaimStatus{}
				}
			})
		}
	case claim.DeletionTimestamp != nil && len(valid) == 0 && claim.Status.Allocation != nil:
		return func() {
			sim.logf("controller: device claim %s is deallocated", describe(claim))
			edit(sim.server, claim, func(c *resourceapi.ResourceClaim) { c.Status = resourceapi.ResourceClaimStatus{} })
		}
	case hasFinalizer && claim.Status.Allocation == nil && claim.DeletionTimestamp != nil:
		return func() { sim.updateDeviceClaim(claim, withoutFinalizer) }
	case claim.DeletionTimestamp == nil && len(valid) == 0 && sim.podOfClaimIsGone(claim):
		return func() { sim.deleteDeviceClaim(claim, "its pod is gone") }
	}
	return nil
}

func withoutFinalizer(claim *resourceapi.ResourceClaim) {
	claim.Finalizers = slices.DeleteFunc(claim.Finalizers, func(name string) bool { return name == resourceapi.Finalizer })
}

// podOfClaimIsGone says whether a claim was generated for a pod that is over.
func (sim *simulation) podOfClaimIsGone(claim *resourceapi.ResourceClaim) bool {
	owner := metav1.GetControllerOf(claim)
	if owner == nil {
		return false
	}
	pod := sim.server.pods[claim.Namespace+"/"+owner.Name]
	return pod == nil || pod.UID != owner.UID || !isLivePod(pod)
}

// deleteDeviceClaim is the deletion of a claim.
func (sim *simulation) deleteDeviceClaim(claim *resourceapi.ResourceClaim, why string) {
	sim.logf("device claim %s is deleted: %s", describe(claim), why)
	if len(claim.Finalizers) == 0 {
		sim.server.drop(claim)
		return
	}
	sim.count("a claim with a finalizer is deleted")
	edit(sim.server, claim, func(c *resourceapi.ResourceClaim) { c.DeletionTimestamp = &metav1.Time{Time: sim.clock.now} })
}

// updateDeviceClaim changes a claim, which ends where it was deleted and has no finalizer any more.
func (sim *simulation) updateDeviceClaim(claim *resourceapi.ResourceClaim, change func(*resourceapi.ResourceClaim)) *resourceapi.ResourceClaim {
	changed := edit(sim.server, claim, change)
	if changed.DeletionTimestamp != nil && len(changed.Finalizers) == 0 {
		sim.logf("device claim %s is gone", describe(changed))
		sim.server.drop(changed)
	}
	return changed
}

// generateStep returns how a claim is generated for a pod; nil where there is none to generate.
func (sim *simulation) generateStep(pod *v1.Pod) func() {
	if _, _, ok := deviceClaimsOf(pod); ok || pod.DeletionTimestamp != nil || !isLivePod(pod) {
		return nil
	}
	i := slices.IndexFunc(all[*resourceapi.ResourceClaim](sim.server), func(c *resourceapi.ResourceClaim) bool {
		return metav1.IsControlledBy(c, pod)
	})
	if i < 0 {
		return func() {
			sim.count("a claim is generated")
			sim.addDeviceClaim(pod.Name+"-own-"+itoa(sim.server.version), pod, sim.random)
		}
	}
	name := all[*resourceapi.ResourceClaim](sim.server)[i].Name
	return func() {
		sim.updatePod(pod, "has the generated claim "+name, func(p *v1.Pod) {
			p.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "own", ResourceClaimName: &name}}
		})
	}
}

// driverStep returns how a device becomes ready, or fails; nil where no claim waits for that.
func (sim *simulation) driverStep(claim *resourceapi.ResourceClaim) func() {
	if claim.Status.Allocation == nil {
		return nil
	}
	for i := range claim.Status.Allocation.Devices.Results {
		result := &claim.Status.Allocation.Devices.Results[i]
		known := slices.ContainsFunc(claim.Status.Devices, func(d resourceapi.AllocatedDeviceStatus) bool {
			return d.Pool == result.Pool && d.Device == result.Device
		})
		if len(result.BindingConditions) > 0 && !known {
			return func() { sim.reportDevice(claim, result) }
		}
	}
	return nil
}

func (sim *simulation) reportDevice(claim *resourceapi.ResourceClaim, result *resourceapi.DeviceRequestAllocationResult) {
	condition := "ready"
	if !sim.healed && sim.random.IntN(4) == 0 {
		condition = "failed"
	}
	sim.count("a device is " + condition)
	sim.logf("driver: device %s of claim %s is %s", result.Device, describe(claim), condition)
	edit(sim.server, claim, func(c *resourceapi.ResourceClaim) {
		status := resourceapi.AllocatedDeviceStatus{Driver: result.Driver, Pool: result.Pool, Device: result.Device}
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{Type: condition, Status: metav1.ConditionTrue, Reason: "Driver"})
		c.Status.Devices = append(c.Status.Devices, status)
	})
}
