package hints

import (
	"reflect"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/berthdev/berth/scheduler/devices"
	"github.com/berthdev/berth/scheduler/eventhandlers"
	"github.com/berthdev/berth/scheduler/sandbox/log"
)

// Informer calls its handlers in Apply and Remove, before these return.
type Informer struct {
	toolscache.SharedIndexInformer
	store    toolscache.Indexer
	handlers []toolscache.ResourceEventHandler
}

func newInformer() *Informer {
	return &Informer{store: toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc,
		toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})}
}

func (i *Informer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	i.handlers = append(i.handlers, h)
	return registration{}, nil
}

func (i *Informer) HasSynced() bool                            { return true }
func (i *Informer) GetStore() toolscache.Store                 { return i.store }
func (i *Informer) GetIndexer() toolscache.Indexer             { return i.store }
func (i *Informer) AddIndexers(more toolscache.Indexers) error { return i.store.AddIndexers(more) }

// managerTransform is the transform of a manager without out-of-tree plugins.
var managerTransform = eventhandlers.Trim(false)

// Apply adds or updates an object, in the form that a manager's informers store.
func (i *Informer) Apply(given log.Object) error {
	before, known, err := i.store.Get(given)
	if err != nil {
		return err
	}
	kept, err := managerTransform(given.DeepCopyObject())
	if err != nil {
		return err
	}
	object := kept.(log.Object)
	if err := i.store.Update(object); err != nil {
		return err
	}
	for _, h := range i.handlers {
		if known {
			h.OnUpdate(before, object)
		} else {
			h.OnAdd(object, false)
		}
	}
	return nil
}

// registration has synced from the start.
type registration struct {
	toolscache.ResourceEventHandlerRegistration
}

func (registration) HasSynced() bool { return true }

// Remove deletes an object, if it exists.
func (i *Informer) Remove(object log.Object) error {
	last, known, err := i.store.Get(object)
	if err != nil || !known {
		return err
	}
	err = i.store.Delete(last)
	for _, h := range i.handlers {
		h.OnDelete(last)
	}
	return err
}

// NewInformers returns the informers of all kinds that the scheduler watches, and the factory
// that returns them.
func NewInformers() (informers.SharedInformerFactory, map[reflect.Type]*Informer) {
	factory := informers.NewSharedInformerFactory(nil, 0)
	all := map[reflect.Type]*Informer{}
	kinds := []runtime.Object{
		&v1.Pod{}, &v1.Node{}, &v1.Namespace{}, &v1.Service{}, &v1.ReplicationController{}, &appsv1.ReplicaSet{}, &appsv1.StatefulSet{},
	}
	for _, kind := range slices.Concat(kinds, eventhandlers.AllStorage().Kinds(), devices.AllServed().Kinds()) {
		mine := newInformer()
		all[reflect.TypeOf(kind)] = mine
		// The factory keeps the first informer of a kind.
		factory.InformerFor(kind, func(clientset.Interface, time.Duration) toolscache.SharedIndexInformer { return mine })
	}
	return factory, all
}
