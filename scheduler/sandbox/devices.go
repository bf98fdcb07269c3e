package sandbox

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientset "k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/devices"
)

// deviceObjects are the claims and devices of a Scheduler, whose handlers it calls itself,
// since its informers are never started.
type deviceObjects struct {
	*devices.Devices
	claims, slices, classes, rules *handledInformer
}

func (s *Scheduler) newDeviceObjects(client clientset.Interface) (*deviceObjects, error) {
	kinds := s.Factory.Resource().V1()
	d := &deviceObjects{
		Devices: devices.New(devices.Options{Client: client, Clock: clock.RealClock{}}),
		claims:  &handledInformer{SharedIndexInformer: kinds.ResourceClaims().Informer()},
		slices:  &handledInformer{SharedIndexInformer: kinds.ResourceSlices().Informer()},
		classes: &handledInformer{SharedIndexInformer: kinds.DeviceClasses().Informer()},
		rules:   &handledInformer{SharedIndexInformer: kinds.DeviceTaintRules().Informer()},
	}
	_, err := d.UseInformers(devices.Informers{Claims: d.claims, Slices: d.slices, Classes: d.classes, Rules: d.rules})
	return d, err
}

// informerOf returns the informer of an object's kind, nil if it is another kind.
func (d *deviceObjects) informerOf(object runtime.Object) *handledInformer {
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

// set adds or replaces an object. A claim that is allocated ends the allocation in flight
// that a Reserve has made for it.
func (d *deviceObjects) set(informer *handledInformer, object runtime.Object) error {
	claim, ok := object.(*resourceapi.ResourceClaim)
	if !ok {
		return informer.set(object)
	}
	claim = claim.DeepCopy()
	claim.ResourceVersion = "" // the caller's order counts, and not that of the versions
	err := informer.set(claim)
	if claim.Status.Allocation != nil {
		d.EndAllocation(claim)
	}
	return err
}

// remove removes an object, if it exists.
func (d *deviceObjects) remove(informer *handledInformer, object runtime.Object) error {
	if claim, ok := object.(*resourceapi.ResourceClaim); ok {
		d.EndAllocation(claim)
	}
	return informer.remove(object)
}

// handledInformer is an informer that is never started. set and remove change its store and
// call its handlers.
type handledInformer struct {
	toolscache.SharedIndexInformer
	handlers []toolscache.ResourceEventHandler
}

// AddEventHandler adds a handler.
func (i *handledInformer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	i.handlers = append(i.handlers, handler)
	return i.SharedIndexInformer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{})
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
