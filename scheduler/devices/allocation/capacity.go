package allocation

import (
	"errors"
	"fmt"
	"math"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/structured"
)

// Errors of requests whose capacity cannot be computed. They end the attempt.
var (
	errNotRepresentable = errors.New("capacity request cannot be represented in the device's range arithmetic")
	errNegativeCapacity = errors.New("capacity value is negative")
)

// consumption is what a request consumes of one capacity of a device.
type consumption struct {
	name  resourceapi.QualifiedName
	value resource.Quantity
}

// consumesWhole reports whether a request without capacity fits into unshared capacity.
func consumesWhole(capacity map[resourceapi.QualifiedName]resourceapi.DeviceCapacity) bool {
	for _, c := range capacity {
		if c.RequestPolicy != nil || c.Value.Sign() < 0 {
			return false
		}
	}
	return true
}

// consumptionsOf appends what a request consumes of each capacity of a device. It returns
// false if the device lacks a capacity that is requested. The error says that a value is
// negative, or too large to be rounded.
func consumptionsOf(list []consumption, requests *resourceapi.CapacityRequirements, d *device) ([]consumption, bool, error) {
	if requests != nil {
		for name := range requests.Requests {
			if _, found := d.api.Capacity[name]; !found {
				return list, false, nil
			}
		}
	}
	for name, capacity := range d.api.Capacity {
		var requested *resource.Quantity
		if requests != nil {
			if value, found := requests.Requests[name]; found {
				requested = &value
			}
		}
		value, err := consumed(requested, &capacity)
		if err == nil && value.Sign() < 0 {
			err = errNegativeCapacity
		}
		if err != nil {
			return list, false, fmt.Errorf("capacity %q: %w", name, err)
		}
		list = append(list, consumption{name, value})
	}
	return list, true, nil
}

// consumed returns what is consumed of a capacity; requested is nil if the request does
// not name it.
func consumed(requested *resource.Quantity, capacity *resourceapi.DeviceCapacity) (resource.Quantity, error) {
	policy := capacity.RequestPolicy
	switch {
	case requested == nil && policy != nil && policy.Default != nil:
		return policy.Default.DeepCopy(), nil
	case requested == nil:
		return capacity.Value.DeepCopy(), nil
	case policy == nil:
		return requested.DeepCopy(), nil
	case policy.ValidRange != nil && policy.ValidRange.Min != nil:
		return roundToRange(requested, policy.ValidRange)
	}
	for i := range policy.ValidValues {
		if requested.Cmp(policy.ValidValues[i]) <= 0 {
			return policy.ValidValues[i].DeepCopy(), nil
		}
	}
	return *requested, nil
}

// roundToRange rounds up to the next step from the minimum. Fractions of steps are a
// feature that is off.
func roundToRange(requested *resource.Quantity, valid *resourceapi.CapacityRequestPolicyRange) (resource.Quantity, error) {
	switch {
	case requested.Cmp(*valid.Min) < 0:
		return valid.Min.DeepCopy(), nil
	case valid.Step == nil:
		return *requested, nil
	case requested.CmpInt64(math.MaxInt64) > 0:
		return resource.Quantity{}, fmt.Errorf("%w: request %s exceeds MaxInt64", errNotRepresentable, requested.String())
	}
	least, step := valid.Min.Value(), valid.Step.Value()
	above := requested.Value() - least
	steps := above / step
	if above%step != 0 {
		steps++
	}
	if least >= 0 && steps > (math.MaxInt64-least)/step {
		return resource.Quantity{}, fmt.Errorf("%w: rounding request %s up to the next step passes MaxInt64", errNotRepresentable, requested.String())
	}
	return *resource.NewQuantity(least+step*steps, valid.Step.Format), nil
}

// violates reports whether a policy forbids to consume a value.
func violates(value resource.Quantity, policy *resourceapi.CapacityRequestPolicy) bool {
	// kube-scheduler compares the default as a struct, in which equal values can differ.
	if policy == nil || policy.Default != nil && value == *policy.Default {
		return false
	}
	if valid := policy.ValidRange; valid != nil {
		return valid.Max != nil && value.Cmp(*valid.Max) > 0 ||
			valid.Step != nil && (value.Value()-valid.Min.Value())%valid.Step.Value() != 0
	}
	for i := range policy.ValidValues {
		if value.Cmp(policy.ValidValues[i]) == 0 {
			return false
		}
	}
	return len(policy.ValidValues) > 0
}

// fitsInto reports whether consumptions fit into a device beside what claims hold, and
// beside other shares chosen in this search.
func fitsInto(list []consumption, d *device, held structured.ConsumedCapacity, chosen []choice) bool {
	for i := range list {
		name := list[i].name
		capacity := d.api.Capacity[name]
		if violates(list[i].value, capacity.RequestPolicy) {
			return false
		}
		total := list[i].value.DeepCopy()
		if value, found := held[name]; found {
			total.Add(*value)
		}
		for j := range chosen {
			if chosen[j].device == d {
				for k := range chosen[j].consumed {
					if chosen[j].consumed[k].name == name {
						total.Add(chosen[j].consumed[k].value)
					}
				}
			}
		}
		if total.Cmp(capacity.Value) > 0 {
			return false
		}
	}
	return true
}
