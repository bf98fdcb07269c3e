package devices

import (
	"sync/atomic"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	fwk "k8s.io/kube-scheduler/framework"
)

// classLister lists classes, and maps extended resources to them. It is safe for
// concurrent use.
type classLister struct {
	lister atomic.Pointer[resourcelisters.DeviceClassLister]
	// resolver prefers the newer of two classes with the same extended resource. As in
	// kube-scheduler, the older one does not take its place when that is deleted
	// (kubernetes/kubernetes#141110).
	resolver *extendedresourcecache.ExtendedResourceCache
}

var _ fwk.DeviceClassLister = &classLister{}

func newClassLister(log logr.Logger) *classLister {
	l := &classLister{resolver: extendedresourcecache.NewExtendedResourceCache(log)}
	l.setStore(toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, nil))
	return l
}

func (l *classLister) setStore(store toolscache.Indexer) {
	lister := resourcelisters.NewDeviceClassLister(store)
	l.lister.Store(&lister)
}

// useInformer lists the classes of an informer from now on. The resolver knows a change
// before handler gets it.
func (l *classLister) useInformer(classes toolscache.SharedIndexInformer, handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	l.setStore(classes.GetIndexer())
	l.resolver.AddEventHandler(handler)
	return classes.AddEventHandler(l.resolver)
}

// Get returns a class, or a NotFound error.
func (l *classLister) Get(name string) (*resourceapi.DeviceClass, error) {
	return (*l.lister.Load()).Get(name)
}

// List returns the classes in no order.
func (l *classLister) List() ([]*resourceapi.DeviceClass, error) {
	return (*l.lister.Load()).List(labels.Everything())
}

// noExtendedResources maps no extended resource to a class.
type noExtendedResources struct{}

func (noExtendedResources) GetDeviceClass(v1.ResourceName) *resourceapi.DeviceClass { return nil }
