package dynamicresources

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// GivenDevices returns the devices of all claims, those of shared claims included.
func (p *Plugin) GivenDevices(state fwk.CycleState, pod *v1.Pod) (devices []string) {
	data, err := getStateData(state)
	if err != nil {
		return nil
	}
	for i := range data.claims {
		c := &data.claims[i]
		allocation := c.claim.Status.Allocation
		if allocation == nil {
			allocation = c.allocation
		}
		if allocation == nil {
			continue // the node itself has the extended resources
		}
		for j := range allocation.Devices.Results {
			result := &allocation.Devices.Results[j]
			devices = append(devices, data.nameOf(c, pod, result)+"="+result.Driver+"/"+result.Pool+"/"+result.Device)
		}
	}
	return devices
}

// nameOf returns the name by which a pod asks for a device: that of the claim in its spec, or
// the extended resource.
func (s *stateData) nameOf(c *podClaim, pod *v1.Pod, result *resourceapi.DeviceRequestAllocationResult) string {
	if c.extended {
		for _, m := range s.mappings {
			if m.RequestName == result.Request {
				return m.ResourceName
			}
		}
	}
	return nameInPod(pod, c.claim.Name)
}
