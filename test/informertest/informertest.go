// Package informertest lets a test of informers choose one of the orders in which
// things can happen.
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

// Watched returns a channel that is closed when somebody watches a resource of
// client. The fake client does not tell a watch of what was written before, as an
// API server does: a test must not write between the list and the watch of an
// informer.
func WatchStarted(client *fake.Clientset, resource string) <-chan struct{} {
	watched, once := make(chan struct{}), sync.Once{}
	client.PrependWatchReactor(resource, func(action clienttesting.Action) (bool, watch.Interface, error) {
		begun, err := client.Tracker().Watch(action.GetResource(), action.GetNamespace())
		once.Do(func() { close(watched) })
		return true, begun, err
	})
	return watched
}

// LateHandlers is an informer factory that calls no handler which is added through
// it before Release is closed. Handlers that are added to the factory behind it are
// called at once. client-go promises no order among the handlers of one informer,
// since each has a queue of its own.
type DelayedHandlers struct {
	informers.SharedInformerFactory
	Release <-chan struct{}
}

// InformerFor returns the informer of the factory behind f.
func (f DelayedHandlers) InformerFor(obj runtime.Object, made internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	return informer{f.SharedInformerFactory.InformerFor(obj, made), f.Release}
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
