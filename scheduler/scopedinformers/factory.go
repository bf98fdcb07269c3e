// Package scopedinformers gives each generation of a profile an informer factory of its
// own. Closing the factory removes the generation's event handlers and indexes, and
// stops the informers that no other generation uses. client-go's shared informers do
// none of this by themselves: a handler whose registration is dropped is still called,
// an index cannot be removed, and a factory stops all of its informers or none.
//
// A read of a generation's index sees the informer's store as it is at that moment. No
// event handler maintains the index, because that handler would run concurrently with
// the handlers that requeue pods.
//
// The package also delivers events of resources that Berth itself does not watch, as
// long as some generation subscribes to them: kinds that a cluster may not serve, and
// custom resources that do not exist yet.
package scopedinformers

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
)

// ErrClosed is returned by a closed Factory.
var ErrClosed = errors.New("the generation's informer factory is closed")

// Factory is the SharedInformerFactory of one generation. It is safe for concurrent use.
type Factory struct {
	groups
	pool *Pool

	mu        sync.Mutex
	closed    bool
	informers map[reflect.Type]*scopedInformer
	// releases release the acquired informers.
	releases []func()
	// eventSources are by the name of the subscription.
	eventSources map[fwk.EventResource]*eventSource
	// onMissedEventsChange never changes; may be nil.
	onMissedEventsChange func()
}

var _ informers.SharedInformerFactory = &Factory{}

// NewFactory returns a Factory that has acquired no informer. onMissedEventsChange is
// called without a lock whenever MissedEvents changes; nil for never.
func (p *Pool) NewFactory(onMissedEventsChange func()) *Factory {
	f := &Factory{pool: p, onMissedEventsChange: onMissedEventsChange, informers: map[reflect.Type]*scopedInformer{}, eventSources: map[fwk.EventResource]*eventSource{}}
	f.groups = groups{sharing{f}}
	return f
}

// InformerFor returns the informer of obj's kind. Where neither Berth nor the Factory has one, it calls
// newInformer, whose informer no other Factory uses: the constructor may select some of the objects.
func (f *Factory) InformerFor(obj runtime.Object, newInformer internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	return f.informerFor(obj, ownKey{f, reflect.TypeOf(obj)}, newInformer)
}

// ownKey is the key in the Pool of an informer that one Factory uses.
type ownKey struct {
	factory *Factory
	kind    reflect.Type
}

// sharing is the Factory for the constructors of client-go, whose informers all Factories share.
type sharing struct{ *Factory }

// InformerFor returns the informer of obj's kind.
func (s sharing) InformerFor(obj runtime.Object, newInformer internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	return s.informerFor(obj, reflect.TypeOf(obj), newInformer)
}

// informerFor is InformerFor with the key of the informer in the Pool, where Berth itself has none.
func (f *Factory) informerFor(obj runtime.Object, key any, newInformer internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	kind := reflect.TypeOf(obj)
	f.mu.Lock()
	defer f.mu.Unlock()
	if scoped, ok := f.informers[kind]; ok {
		return scoped
	}
	if f.closed {
		// An informer from a closed Factory is never started and holds no objects.
		return &scopedInformer{SharedIndexInformer: newInformer(f.pool.options.Client, 0), closed: true, changes: &changeTracker{}}
	}
	if f.pool.isNotServed(kind) {
		empty := &scopedInformer{SharedIndexInformer: newInformer(f.pool.options.Client, 0), notServed: true, changes: &changeTracker{}, log: f.pool.options.Log}
		f.informers[kind] = empty
		return empty
	}
	shared, changes, release := f.pool.acquire(obj, key, newInformer)
	scoped := &scopedInformer{SharedIndexInformer: shared, pluginOnly: release != nil, changes: changes, log: f.pool.options.Log}
	f.informers[kind] = scoped
	if release != nil {
		f.releases = append(f.releases, release)
	}
	return scoped
}

// ForResource returns the informer of a resource for which client-go has a Go type.
func (f *Factory) ForResource(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	obj, err := f.pool.objectOf(resource)
	if err != nil {
		return nil, err
	}
	scoped := sharing{f}.InformerFor(obj, newInformerFunc(resource))
	return genericInformer{scoped.(*scopedInformer), resource.GroupResource()}, nil
}

// newInformerFunc returns the constructor of the informer of a resource for which
// objectOf returned an object.
func newInformerFunc(resource schema.GroupVersionResource) internalinterfaces.NewInformerFunc {
	return func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		// client-go has the informer, because objectOf has found the type.
		generic, err := informers.NewSharedInformerFactory(client, resync).ForResource(resource)
		if err != nil {
			panic(err)
		}
		return generic.Informer()
	}
}

// objectOf returns an empty object of the kind that a resource holds.
func (p *Pool) objectOf(resource schema.GroupVersionResource) (runtime.Object, error) {
	// This factory is never started: it only tells whether there is an informer.
	if _, err := informers.NewSharedInformerFactory(p.options.Client, 0).ForResource(resource); err != nil {
		return nil, err
	}
	for kind := range scheme.Scheme.KnownTypes(resource.GroupVersion()) {
		gvk := resource.GroupVersion().WithKind(kind)
		if plural(gvk) != resource.Resource {
			continue
		}
		obj, err := scheme.Scheme.New(gvk)
		if _, single := obj.(metav1.Object); err == nil && single {
			return obj, nil
		}
	}
	return nil, fmt.Errorf("no informer found for %v", resource)
}

type genericInformer struct {
	informer *scopedInformer
	resource schema.GroupResource
}

func (g genericInformer) Informer() cache.SharedIndexInformer { return g.informer }
func (g genericInformer) Lister() cache.GenericLister {
	return cache.NewGenericLister(g.informer.GetIndexer(), g.resource)
}

// InformerName returns nil: the metrics of Berth's own informers have the names.
func (*Factory) InformerName() *cache.InformerName { return nil }

// Start does nothing: an informer runs from its first use on.
func (*Factory) Start(<-chan struct{}) {}

// StartWithContext does nothing; see Start.
func (*Factory) StartWithContext(context.Context) {}

// Shutdown does nothing: the generation closes the Factory.
func (*Factory) Shutdown() {}

// WaitForCacheSync waits until all informers of the Factory have synced.
func (f *Factory) WaitForCacheSync(stop <-chan struct{}) map[reflect.Type]bool {
	return f.WaitForCacheSyncWithContext(wait.ContextForChannel(stop)).Synced
}

// WaitForCacheSyncWithContext waits until all informers of the Factory have synced.
func (f *Factory) WaitForCacheSyncWithContext(ctx context.Context) cache.SyncResult {
	f.mu.Lock()
	scoped := map[reflect.Type]*scopedInformer{}
	for kind, i := range f.informers {
		scoped[kind] = i
	}
	f.mu.Unlock()
	result := cache.SyncResult{Synced: map[reflect.Type]bool{}}
	for kind, i := range scoped {
		if f.pool.options.Wait(ctx, i.HasSyncedChecker().Done()) != nil {
			result.Err = context.Cause(ctx)
		}
		result.Synced[kind] = i.HasSynced()
	}
	return result
}

// Pending is an informer, a handler, an index or a subscription that has not synced.
type Pending struct {
	// Kind is a Go type, as v1.Node, or the name of a subscribed resource.
	Kind string
	// Done is closed when it has synced.
	Done <-chan struct{}
}

// Pending returns what must sync before the plugins of the generation see all existing
// objects: the added handlers and indexes, the informers that only plugins use, and the
// subscriptions.
func (f *Factory) Pending() []Pending {
	f.mu.Lock()
	defer f.mu.Unlock()
	var pending []Pending
	for kind, i := range f.informers {
		for _, done := range i.pending() {
			pending = append(pending, Pending{strings.TrimPrefix(kind.String(), "*"), done})
		}
	}
	for resource, e := range f.eventSources {
		pending = append(pending, Pending{string(resource), e.synced})
	}
	return slices.DeleteFunc(pending, func(p Pending) bool {
		select {
		case <-p.Done:
			return true
		default:
			return false
		}
	})
}

// Close removes all handlers and indexes and releases the informers. When it returns, no
// handler of the Factory is called any more.
func (f *Factory) Close() {
	f.mu.Lock()
	scoped, releases, sources := f.informers, f.releases, f.eventSources
	f.closed, f.informers, f.releases, f.eventSources = true, map[reflect.Type]*scopedInformer{}, nil, nil
	f.mu.Unlock()
	for _, e := range sources {
		f.pool.unsubscribe(e, f)
	}
	for _, i := range scoped {
		i.close()
	}
	for _, release := range releases {
		release()
	}
}

// plural guesses a kind's resource name, which is right for client-go's own informers.
func plural(kind schema.GroupVersionKind) string {
	guess, _ := meta.UnsafeGuessKindToResource(kind)
	return guess.Resource
}
