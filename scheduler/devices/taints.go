package devices

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	toolscache "k8s.io/client-go/tools/cache"
)

// withTaints returns a slice with the taints of the rules that select its devices: slice
// itself if no rule does, otherwise a copy. A selector without a field selects all
// devices, and a rule without a selector none.
func withTaints(slice *resourceapi.ResourceSlice, rules []*resourceapi.DeviceTaintRule) *resourceapi.ResourceSlice {
	tainted := slice
	for _, rule := range rules {
		if !selectsPool(rule, slice) {
			continue
		}
		for i := range slice.Spec.Devices {
			if device := rule.Spec.DeviceSelector.Device; device != nil && *device != slice.Spec.Devices[i].Name {
				continue
			}
			if tainted == slice {
				tainted = slice.DeepCopy()
			}
			tainted.Spec.Devices[i].Taints = append(tainted.Spec.Devices[i].Taints, rule.Spec.Taint)
		}
	}
	return tainted
}

// selectsPool reports whether a rule selects devices of the driver and pool of a slice.
func selectsPool(rule *resourceapi.DeviceTaintRule, slice *resourceapi.ResourceSlice) bool {
	selector := rule.Spec.DeviceSelector
	return selector != nil &&
		(selector.Driver == nil || *selector.Driver == slice.Spec.Driver) &&
		(selector.Pool == nil || *selector.Pool == slice.Spec.Pool.Name)
}

// mayConcern reports whether a rule, as an event handler gets it, may select devices of a
// slice. A deleted rule whose content is unknown may.
func mayConcern(obj any, slice *resourceapi.ResourceSlice) bool {
	if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	rule, known := obj.(*resourceapi.DeviceTaintRule)
	return !known || selectsPool(rule, slice)
}

// sameTaints reports whether two versions of a slice have devices with the same taints.
func sameTaints(a, b *resourceapi.ResourceSlice) bool {
	return slices.EqualFunc(a.Spec.Devices, b.Spec.Devices, func(a, b resourceapi.Device) bool {
		return slices.EqualFunc(a.Taints, b.Taints, func(a, b resourceapi.DeviceTaint) bool {
			return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect && a.TimeAdded.Equal(b.TimeAdded)
		})
	})
}
