package noderesources

import (
	"context"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// deviceClasses are the DeviceClasses, some of which back extended resources with devices.
// A nil manager stands for none.
type deviceClasses struct{ manager fwk.SharedDRAManager }

// deviceClassesOf returns the classes that handle knows.
func deviceClassesOf(handle fwk.Handle) deviceClasses {
	devices, err := framework.DevicesOf(handle)
	if err != nil {
		return deviceClasses{}
	}
	return deviceClasses{devices}
}

// backs returns the class that backs a resource; nil if none does.
func (d deviceClasses) backs(name v1.ResourceName) *resourceapi.DeviceClass {
	if d.manager == nil {
		return nil
	}
	return d.manager.DeviceClassResolver().GetDeviceClass(name)
}

// signRequests signs a pod with its requests, unless a class backs one of them.
func (d deviceClasses) signRequests(pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	requests := computePodResourceRequest(pod)
	for name, amount := range requests.ScalarResources {
		if amount != 0 && d.backs(name) != nil {
			return nil, fwk.NewStatus(fwk.Unschedulable, "signature disabled when dra extended resources are used in the cluster")
		}
	}
	return []fwk.SignFragment{{Key: fwk.ResourcesSignerName, Value: requests}}, nil
}

// celCacheSize is the number of compiled CEL expressions to keep; only speed depends on it.
const celCacheSize = 64

// deviceScorer counts devices for the scores of resources that classes back.
type deviceScorer struct {
	deviceClasses
	expressions *cel.Cache
}

func newDeviceScorer(classes deviceClasses) *deviceScorer {
	return &deviceScorer{classes, cel.NewCache(celCacheSize, cel.Features{EnableConsumableCapacity: framework.DeviceFeatures.ConsumableCapacity})}
}

// scoredDevices are the devices of the cluster when PreScore ran.
type scoredDevices struct {
	*deviceScorer
	allocated *structured.AllocatedState
	slices    []*resourceapi.ResourceSlice
}

// devices returns the devices, nil if no class backs a resource that the pod is scored by.
func (d *deviceScorer) devices(resources scoredResources, requests scoredRequests) (*scoredDevices, error) {
	backed := false
	for i := range resources.specs {
		spec := &resources.specs[i]
		backed = backed || requests[i] != 0 && framework.IsDeviceResourceName(spec.name) && d.backs(spec.name) != nil
	}
	if !backed {
		return nil, nil
	}
	allocated, err := d.manager.ResourceClaims().GatherAllocatedState()
	if err != nil {
		return nil, err
	}
	slices, err := d.manager.ResourceSlices().ListWithDeviceTaintRules()
	if err != nil {
		return nil, err
	}
	return &scoredDevices{d, allocated, slices}, nil
}

// amounts returns how many devices of a resource's class a node has, and how many of them
// are allocated. A class or a slice that cannot be evaluated counts as none.
func (s *scoredDevices) amounts(ctx context.Context, node *v1.Node, name v1.ResourceName) (devices, allocated int64) {
	class := s.backs(name)
	if class == nil {
		return 0, 0
	}
	for _, slice := range s.slices {
		for i := range slice.Spec.Devices {
			device := &slice.Spec.Devices[i]
			matches, err := isForNode(slice, device, node)
			if err == nil && matches {
				matches, err = s.isOfClass(ctx, slice, device, class)
			}
			switch {
			case err != nil:
				klog.FromContext(ctx).Error(err, "Counting the devices of a node failed", "node", node.Name, "resource", name, "deviceClass", class.Name)
				return 0, 0
			case !matches:
				continue
			}
			devices++
			if structured.IsDeviceAllocated(structured.MakeDeviceID(slice.Spec.Driver, slice.Spec.Pool.Name, device.Name), s.allocated) {
				allocated++
			}
		}
	}
	return devices, allocated
}

// isForNode reports whether a device of a slice is available on a node.
func isForNode(slice *resourceapi.ResourceSlice, device *resourceapi.Device, node *v1.Node) (bool, error) {
	name, all, selector := slice.Spec.NodeName, slice.Spec.AllNodes, slice.Spec.NodeSelector
	if perDevice := slice.Spec.PerDeviceNodeSelection; perDevice != nil && *perDevice {
		name, all, selector = device.NodeName, device.AllNodes, device.NodeSelector
	}
	switch {
	case all != nil && *all:
		return true, nil
	case name != nil && *name == node.Name:
		return true, nil
	case selector == nil:
		return false, nil
	}
	return structured.NodeMatches(framework.DeviceFeatures, node, "", false, selector)
}

// isOfClass reports whether all selectors of a class match a device.
func (s *scoredDevices) isOfClass(ctx context.Context, slice *resourceapi.ResourceSlice, device *resourceapi.Device, class *resourceapi.DeviceClass) (bool, error) {
	for i := range class.Spec.Selectors {
		selector := class.Spec.Selectors[i].CEL
		if selector == nil {
			continue
		}
		compiled := s.expressions.GetOrCompile(selector.Expression)
		if compiled.Error != nil {
			return false, compiled.Error
		}
		matches, _, err := compiled.DeviceMatches(ctx, cel.Device{Driver: slice.Spec.Driver, Attributes: device.Attributes, Capacity: device.Capacity})
		if err != nil || !matches {
			return false, err
		}
	}
	return true, nil
}
