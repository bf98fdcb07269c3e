package eventhandlers

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/informers"
	toolscache "k8s.io/client-go/tools/cache"
)

// DeviceClasses knows which extended resources are backed by a DeviceClass: these
// are devices to allocate and not amounts that a node offers. It is safe for
// concurrent use. A nil *DeviceClasses watches nothing.
type DeviceClasses struct {
	// served says that the API server serves DeviceClasses.
	served bool
	mu     sync.Mutex
	// backing counts the classes by the extended resource that they back.
	backing map[string]int
}

// NewDeviceClasses asks the API server whether it serves DeviceClasses; where it
// does not, there is nothing to watch. EventHandlers that get the result in their
// Options watch them. It returns the error of discovery.
func NewDeviceClasses(server discovery.DiscoveryInterface) (*DeviceClasses, error) {
	list, err := server.ServerResourcesForGroupVersion(resourcev1.SchemeGroupVersion.String())
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	return &DeviceClasses{served: serves(list, "deviceclasses"), backing: map[string]int{}}, nil
}

// Backs reports whether a class backs the extended resource.
func (d *DeviceClasses) Backs(resource string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.backing[resource] > 0
}

// replace counts class after instead of before; nil is none. It returns the
// resources for which the result of Backs has changed. An update is one step: a
// resource that both versions back is backed at any moment.
func (d *DeviceClasses) replace(before, after *resourcev1.DeviceClass) (changed []string) {
	oldResource, newResource := backedBy(before), backedBy(after)
	if oldResource == newResource {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if oldResource != "" {
		if d.backing[oldResource]--; d.backing[oldResource] <= 0 {
			delete(d.backing, oldResource)
			changed = append(changed, oldResource)
		}
	}
	if newResource != "" {
		if d.backing[newResource]++; d.backing[newResource] == 1 {
			changed = append(changed, newResource)
		}
	}
	return changed
}

// backedBy returns the extended resource that a class backs; "" for none.
func backedBy(class *resourcev1.DeviceClass) string {
	if class == nil || class.Spec.ExtendedResourceName == nil {
		return ""
	}
	return *class.Spec.ExtendedResourceName
}

// +kubebuilder:rbac:groups=resource.k8s.io,resources=deviceclasses,verbs=list;watch

// addDeviceClassHandler counts DeviceClasses as they come and go. When a class
// begins or ceases to back a resource, the handler reconsiders the pods that request
// it before it returns: once the handlers are synced, every pod that has to be held
// is held.
func (h *EventHandlers) addDeviceClassHandler(factory informers.SharedInformerFactory) ([]toolscache.InformerSynced, error) {
	d := h.options.DeviceClasses
	if d == nil || !d.served {
		return nil, nil
	}
	replace := func(before, after *resourcev1.DeviceClass) {
		for _, resource := range d.replace(before, after) {
			if h.options.Profiles != nil {
				for _, profile := range h.options.Profiles.Names() {
					h.options.Queue.Reconsider(h.options.context(), profile, func(pod *v1.Pod) bool { return requests(pod, v1.ResourceName(resource)) })
				}
			}
		}
	}
	registration, err := factory.Resource().V1().DeviceClasses().Informer().AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { replace(nil, obj.(*resourcev1.DeviceClass)) },
		UpdateFunc: func(oldObj, newObj any) {
			replace(oldObj.(*resourcev1.DeviceClass), newObj.(*resourcev1.DeviceClass))
		},
		DeleteFunc: func(obj any) { handleDeleted(obj, func(class *resourcev1.DeviceClass) { replace(class, nil) }) },
	})
	if err != nil {
		return nil, err
	}
	return []toolscache.InformerSynced{registration.HasSynced}, nil
}

// requests reports whether a container of pod requests a resource.
func requests(pod *v1.Pod, resource v1.ResourceName) bool {
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			if _, ok := containers[i].Resources.Requests[resource]; ok {
				return true
			}
		}
	}
	return false
}
