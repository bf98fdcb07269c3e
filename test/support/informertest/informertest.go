// Package informertest lets a test choose an order of events among those that are
// possible with informers.
package informertest

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

// WatchStarted returns a channel that is closed when client starts to watch a resource.
// Unlike an API server, the fake client does not send what was written before the watch
// started: a test must not write between the list and the watch of an informer.
func WatchStarted(client *fake.Clientset, resource string) <-chan struct{} {
	watched, once := make(chan struct{}), sync.Once{}
	client.PrependWatchReactor(resource, func(action clienttesting.Action) (bool, watch.Interface, error) {
		started, err := client.Tracker().Watch(action.GetResource(), action.GetNamespace())
		once.Do(func() { close(watched) })
		return true, started, err
	})
	return watched
}

// DelayedHandlers is an informer factory that delays all events for handlers that are
// added through it until Release is closed. Handlers that are added to the embedded
// factory are called immediately. client-go does not order the handlers of an informer,
// since each has a queue of its own.
type DelayedHandlers struct {
	informers.SharedInformerFactory
	Release <-chan struct{}
}

// InformerFor returns the informer of the embedded factory.
func (f DelayedHandlers) InformerFor(obj runtime.Object, newInformer internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	return informer{f.SharedInformerFactory.InformerFor(obj, newInformer), f.Release}
}

type informer struct {
	cache.SharedIndexInformer
	release <-chan struct{}
}

func (i informer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandler(handler{h, i.release})
}

type handler struct {
	cache.ResourceEventHandler
	release <-chan struct{}
}

func (h handler) OnAdd(obj any, initial bool) {
	<-h.release
	h.ResourceEventHandler.OnAdd(obj, initial)
}

func (h handler) OnUpdate(before, after any) {
	<-h.release
	h.ResourceEventHandler.OnUpdate(before, after)
}

func (h handler) OnDelete(obj any) {
	<-h.release
	h.ResourceEventHandler.OnDelete(obj)
}
