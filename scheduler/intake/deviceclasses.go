package intake

import (
	"strings"
	"sync"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/informers"
	toolscache "k8s.io/client-go/tools/cache"
)

// DeviceClasses knows which extended resources are backed by a DeviceClass:
// devices that a scheduler allocates, not a number that a node offers.
type DeviceClasses struct {
	mu sync.Mutex
	// backed counts the classes by the resource name that they say they back.
	backed map[string]int
}

// NewDeviceClasses watches the cluster's DeviceClasses through factory. On an
// API server that does not serve them there is nothing to watch. The error is
// the API server's.
func NewDeviceClasses(server discovery.DiscoveryInterface, factory informers.SharedInformerFactory) (*DeviceClasses, error) {
	d := &DeviceClasses{backed: map[string]int{}}
	list, err := server.ServerResourcesForGroupVersion(resourcev1.SchemeGroupVersion.String())
	if apierrors.IsNotFound(err) {
		return d, nil
	}
	if err != nil {
		return nil, err
	}
	for _, r := range list.APIResources {
		if r.Name == "deviceclasses" {
			return d, d.watch(factory)
		}
	}
	return d, nil
}

// +kubebuilder:rbac:groups=resource.k8s.io,resources=deviceclasses,verbs=list;watch

func (d *DeviceClasses) watch(factory informers.SharedInformerFactory) error {
	_, err := factory.Resource().V1().DeviceClasses().Informer().AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { d.count(obj.(*resourcev1.DeviceClass), 1) },
		UpdateFunc: func(oldObj, newObj any) {
			d.count(oldObj.(*resourcev1.DeviceClass), -1)
			d.count(newObj.(*resourcev1.DeviceClass), 1)
		},
		DeleteFunc: func(obj any) { ifKnown(obj, func(class *resourcev1.DeviceClass) { d.count(class, -1) }) },
	})
	return err
}

func (d *DeviceClasses) count(class *resourcev1.DeviceClass, n int) {
	if class.Spec.ExtendedResourceName == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	name := *class.Spec.ExtendedResourceName
	if d.backed[name] += n; d.backed[name] <= 0 {
		delete(d.backed, name)
	}
}

// Back says whether a resource is backed by devices: by its name alone, which
// can name a class, or because a class says so.
func (d *DeviceClasses) Back(resource string) bool {
	if strings.HasPrefix(resource, resourcev1.ResourceDeviceClassPrefix) {
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.backed[resource] > 0
}
