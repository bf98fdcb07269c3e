package scopedinformers

import (
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	fwk "k8s.io/kube-scheduler/framework"
)

// named are the resources of the events that have a name of their own. Other
// events are named by their resource, as foos.v1.example.com.
// Source: k8s.io/kubernetes/pkg/scheduler, addAllEventHandlers.
var eventResources = map[fwk.EventResource]schema.GroupVersionResource{
	fwk.PersistentVolume:      {Version: "v1", Resource: "persistentvolumes"},
	fwk.PersistentVolumeClaim: {Version: "v1", Resource: "persistentvolumeclaims"},
	fwk.CSINode:               {Group: "storage.k8s.io", Version: "v1", Resource: "csinodes"},
	fwk.CSIDriver:             {Group: "storage.k8s.io", Version: "v1", Resource: "csidrivers"},
	fwk.CSIStorageCapacity:    {Group: "storage.k8s.io", Version: "v1", Resource: "csistoragecapacities"},
	fwk.StorageClass:          {Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"},
	fwk.VolumeAttachment:      {Group: "storage.k8s.io", Version: "v1", Resource: "volumeattachments"},
	fwk.ResourceClaim:         {Group: "resource.k8s.io", Version: "v1", Resource: "resourceclaims"},
	fwk.ResourceSlice:         {Group: "resource.k8s.io", Version: "v1", Resource: "resourceslices"},
	fwk.DeviceClass:           {Group: "resource.k8s.io", Version: "v1", Resource: "deviceclasses"},
	fwk.PodGroup:              {Group: "scheduling.k8s.io", Version: "v1beta1", Resource: "podgroups"},
	fwk.CompositePodGroup:     {Group: "scheduling.k8s.io", Version: "v1alpha3", Resource: "compositepodgroups"},
}

// source says where the events of a resource come from.
type watchTarget struct {
	schema.GroupVersionResource
	// typed says that client-go has a type for what it holds.
	typed bool
	// key is what its informer is shared by.
	key any
}

// sourceOf finds it; nil where the house tells of such events itself. The error
// says what would be the name of a resource.
func (p *Pool) targetOf(resource fwk.EventResource) (*watchTarget, error) {
	if gvr, ok := eventResources[resource]; ok {
		obj, err := p.objectOf(gvr)
		if err != nil {
			return nil, err
		}
		kind := reflect.TypeOf(obj)
		if p.isWatched(kind) {
			return nil, nil
		}
		return &watchTarget{gvr, true, kind}, nil
	}
	if slices.Contains(p.options.OwnEvents, resource) {
		return nil, nil
	}
	gvr, _ := schema.ParseResourceArg(string(resource))
	if gvr == nil || gvr.Resource == "" || gvr.Version == "" {
		return nil, fmt.Errorf("%q is no resource: want plural.version.group, such as foos.v1.example.com", resource)
	}
	return &watchTarget{*gvr, false, *gvr}, nil
}
