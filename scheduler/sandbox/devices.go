package sandbox

import (
	"strconv"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	clientset "k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/devices"
)

// deviceInformers are the informers of claims and devices, which call their handlers: a
// scheduler keeps what it derives from these objects up to date by events.
type deviceInformers struct {
	claims, slices, classes, rules *handledInformer
	// versions is the last resource version of a claim.
	versions uint64
}

// newDeviceInformers makes them the informers of the factory, which must not have any of
// these kinds yet.
func newDeviceInformers(factory informers.SharedInformerFactory) *deviceInformers {
	type newInformer = func(clientset.Interface, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer
	provide := func(object runtime.Object, create newInformer) *handledInformer {
		informer := factory.InformerFor(object, func(client clientset.Interface, resync time.Duration) toolscache.SharedIndexInformer {
			indexers := toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc}
			return &handledInformer{SharedIndexInformer: create(client, resync, indexers)}
		})
		return informer.(*handledInformer)
	}
	return &deviceInformers{
		claims: provide(&resourceapi.ResourceClaim{}, func(client clientset.Interface, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
			return resourceinformers.NewResourceClaimInformer(client, "", resync, indexers)
		}),
		slices:  provide(&resourceapi.ResourceSlice{}, resourceinformers.NewResourceSliceInformer),
		classes: provide(&resourceapi.DeviceClass{}, resourceinformers.NewDeviceClassInformer),
		rules:   provide(&resourceapi.DeviceTaintRule{}, resourceinformers.NewDeviceTaintRuleInformer),
	}
}

// informerOf returns the informer of an object's kind, nil if it is another kind.
func (d *deviceInformers) informerOf(object runtime.Object) *handledInformer {
	switch object.(type) {
	case *resourceapi.ResourceClaim:
		return d.claims
	case *resourceapi.ResourceSlice:
		return d.slices
	case *resourceapi.DeviceClass:
		return d.classes
	case *resourceapi.DeviceTaintRule:
		return d.rules
	}
	return nil
}

// numbered returns a copy of a claim with the next resource version, since the caller's
// order counts, and not that of the versions; other objects as they are.
func (d *deviceInformers) numbered(object runtime.Object) runtime.Object {
	claim, ok := object.(*resourceapi.ResourceClaim)
	if !ok {
		return object
	}
	d.versions++
	claim = claim.DeepCopy()
	claim.ResourceVersion = strconv.FormatUint(d.versions, 10)
	return claim
}

func (s *Scheduler) newDevices(client clientset.Interface) (*devices.Devices, error) {
	d := devices.New(devices.Options{Client: client, Clock: clock.RealClock{}})
	of := s.deviceInformers
	_, err := d.UseInformers(devices.Informers{Claims: of.claims, Slices: of.slices, Classes: of.classes, Rules: of.rules})
	return d, err
}

// endAllocation ends the allocation in flight that a Reserve has made for a claim, once the
// claim is allocated or removed.
func (s *Scheduler) endAllocation(object runtime.Object, removed bool) {
	if claim, ok := object.(*resourceapi.ResourceClaim); ok && (removed || claim.Status.Allocation != nil) {
		s.devices.EndAllocation(claim)
	}
}

// handledInformer is an informer that is never started. set and remove change its store and
// call its handlers.
type handledInformer struct {
	toolscache.SharedIndexInformer
	handlers []toolscache.ResourceEventHandler
}

// AddEventHandler adds a handler.
func (i *handledInformer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{})
}

// AddEventHandlerWithOptions adds a handler.
func (i *handledInformer) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler, options toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	i.handlers = append(i.handlers, handler)
	return i.SharedIndexInformer.AddEventHandlerWithOptions(toolscache.ResourceEventHandlerFuncs{}, options)
}

func (i *handledInformer) set(object runtime.Object) error {
	before, exists, err := i.GetStore().Get(object)
	if err != nil {
		return err
	}
	if err := i.GetStore().Update(object); err != nil {
		return err
	}
	for _, handler := range i.handlers {
		if exists {
			handler.OnUpdate(before, object)
		} else {
			handler.OnAdd(object, false)
		}
	}
	return nil
}

func (i *handledInformer) remove(object runtime.Object) error {
	before, exists, err := i.GetStore().Get(object)
	if err != nil || !exists {
		return err
	}
	if err := i.GetStore().Delete(object); err != nil {
		return err
	}
	for _, handler := range i.handlers {
		handler.OnDelete(before)
	}
	return nil
}
