package allocation

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func (g generator) claims() (list []*resourceapi.ResourceClaim) {
	for i := range pick(g, 1, 1, 1, 2, 3) {
		list = append(list, g.claim(fmt.Sprintf("claim-%d", i)))
	}
	return list
}

func (g generator) claim(name string) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	spec := &claim.Spec.Devices
	for i := range pick(g, 1, 1, 1, 2, 2, 3) {
		spec.Requests = append(spec.Requests, g.request(fmt.Sprintf("req-%d", i)))
	}
	if g.one(3) {
		spec.Constraints = append(spec.Constraints, g.constraint())
	}
	if g.one(8) {
		spec.Constraints = append(spec.Constraints, g.constraint())
	}
	for range pick(g, 0, 0, 0, 1, 2) {
		config := resourceapi.DeviceClaimConfiguration{DeviceConfiguration: g.configuration()}
		if g.one(2) {
			config.Requests = g.requestNames()
		}
		spec.Config = append(spec.Config, config)
	}
	return claim
}

func (g generator) requestNames() []string {
	return pick(g, []string{"req-0"}, []string{"req-1"}, []string{"req-0", "req-1"}, []string{"req-0/sub-0"}, []string{"req-0/sub-1", "req-1/sub-0"}, []string{"req-0", "req-1", "req-2"})
}

func (g generator) constraint() resourceapi.DeviceConstraint {
	var c resourceapi.DeviceConstraint
	if g.one(2) {
		c.Requests = g.requestNames()
	}
	attribute := pick[resourceapi.FullyQualifiedName](g, "gpu.example.com/model", "gpu.example.com/numa", "nic.example.com/numa", "example.com/rack", "gpu.example.com/lists")
	switch {
	case g.one(100):
	case g.one(3):
		c.DistinctAttribute = &attribute
	default:
		c.MatchAttribute = &attribute
	}
	return c
}

func (g generator) className() string {
	if g.one(200) {
		return pick(g, "", "class-4")
	}
	return pick(g, "class-1", "class-2", "class-3")
}

// mode makes mode and number of a request.
func (g generator) mode() (resourceapi.DeviceAllocationMode, int64) {
	switch {
	case g.one(200):
		return "Some", 1
	case g.one(200):
		return resourceapi.DeviceAllocationModeExactCount, pick[int64](g, 0, 33, 30)
	case g.one(6):
		return resourceapi.DeviceAllocationModeAll, 0
	}
	return resourceapi.DeviceAllocationModeExactCount, pick[int64](g, 1, 1, 1, 2, 2, 3)
}

func (g generator) tolerations() []resourceapi.DeviceToleration {
	switch g.IntN(8) {
	case 0:
		return []resourceapi.DeviceToleration{{Key: pick(g, taintKeys...), Operator: resourceapi.DeviceTolerationOpExists}}
	case 1:
		return []resourceapi.DeviceToleration{{Key: pick(g, taintKeys...), Value: "yes"}, {Operator: resourceapi.DeviceTolerationOpExists, Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	}
	return nil
}

func (g generator) capacityRequests() *resourceapi.CapacityRequirements {
	if !g.one(4) {
		return nil
	}
	name := pick[resourceapi.QualifiedName](g, "memory", "memory", "memory", "cores")
	amount := pick(g, "1Gi", "3Gi", "6Gi", "11Gi", "2500m")
	if g.one(12) {
		amount = pick(g, "9223372036854775806", "9223372036854775807", "9223372036854775808", "-1")
	}
	return &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{name: resource.MustParse(amount)}}
}

func (g generator) request(name string) resourceapi.DeviceRequest {
	r := resourceapi.DeviceRequest{Name: name}
	if g.one(4) {
		for i := range 1 + g.IntN(3) {
			sub := resourceapi.DeviceSubRequest{Name: fmt.Sprintf("sub-%d", i), DeviceClassName: g.className(), Selectors: g.selectors(), Tolerations: g.tolerations(), Capacity: g.capacityRequests()}
			sub.AllocationMode, sub.Count = g.mode()
			if g.one(12) {
				sub.Count = pick[int64](g, 20, 31)
			}
			r.FirstAvailable = append(r.FirstAvailable, sub)
		}
		return r
	}
	r.Exactly = &resourceapi.ExactDeviceRequest{DeviceClassName: g.className(), Selectors: g.selectors(), Tolerations: g.tolerations(), Capacity: g.capacityRequests()}
	r.Exactly.AllocationMode, r.Exactly.Count = g.mode()
	if g.one(6) {
		r.Exactly.AdminAccess = ptr.To(!g.one(4))
	}
	if g.one(200) {
		r.Exactly.Selectors = append(r.Exactly.Selectors, resourceapi.DeviceSelector{})
	}
	if g.one(200) {
		r.Exactly.DerivedAttributes = []resourceapi.DeviceDerivedAttribute{{}}
	}
	return r
}
