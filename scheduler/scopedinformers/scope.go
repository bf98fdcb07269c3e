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

// ErrOver is what a scope answers that is closed.
var ErrClosed = errors.New("the generation that asks is over")

// Scope is the SharedInformerFactory of one generation. It is safe for
// concurrent use.
type Factory struct {
	groups
	pool *Pool

	mu        sync.Mutex
	closed    bool
	informers map[reflect.Type]*scopedInformer
	// back gives back what was borrowed.
	releases []func()
	// ears are by what was asked for.
	eventSources         map[fwk.EventResource]*eventSource
	onMissedEventsChange func()
}

var _ informers.SharedInformerFactory = &Factory{}

// New returns a scope that has borrowed nothing.
func (p *Pool) NewFactory() *Factory {
	s := &Factory{pool: p, informers: map[reflect.Type]*scopedInformer{}, eventSources: map[fwk.EventResource]*eventSource{}}
	s.groups = groups{s}
	return s
}

// InformerFor lends the informer of obj's kind. made is called where nobody
// watches the kind yet.
func (s *Factory) InformerFor(obj runtime.Object, made internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	kind := reflect.TypeOf(obj)
	s.mu.Lock()
	defer s.mu.Unlock()
	if lent, ok := s.informers[kind]; ok {
		return lent
	}
	if s.closed {
		// What is asked for too late never runs, and holds nothing.
		return &scopedInformer{SharedIndexInformer: made(s.pool.options.Client, 0), closed: true, changes: &changeTracker{}}
	}
	if s.pool.isNotServed(kind) {
		none := &scopedInformer{SharedIndexInformer: made(s.pool.options.Client, 0), notServed: true, changes: &changeTracker{}, log: s.pool.options.Log}
		s.informers[kind] = none
		return none
	}
	shared, changes, back := s.pool.acquire(obj, made)
	lent := &scopedInformer{SharedIndexInformer: shared, pluginOnly: back != nil, changes: changes, log: s.pool.options.Log}
	s.informers[kind] = lent
	if back != nil {
		s.releases = append(s.releases, back)
	}
	return lent
}

// ForResource lends the informer of a resource whose type client-go knows.
func (s *Factory) ForResource(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	obj, err := s.pool.objectOf(resource)
	if err != nil {
		return nil, err
	}
	lent := s.InformerFor(obj, newInformerFunc(resource))
	return genericInformer{lent.(*scopedInformer), resource.GroupResource()}, nil
}

// makerOf returns what makes the informer of a resource that objectOf knows.
func newInformerFunc(resource schema.GroupVersionResource) internalinterfaces.NewInformerFunc {
	return func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		// objectOf has found the type, so that client-go has the informer.
		generic, err := informers.NewSharedInformerFactory(client, resync).ForResource(resource)
		if err != nil {
			panic(err)
		}
		return generic.Informer()
	}
}

// objectOf returns an object of the kind that a resource holds.
func (p *Pool) objectOf(resource schema.GroupVersionResource) (runtime.Object, error) {
	// A factory that is not started: it only says whether there is an informer.
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

// InformerName is nil: the names of metrics are the house's.
func (*Factory) InformerName() *cache.InformerName { return nil }

// Start does nothing: what the house watches runs, and what it does not runs
// from when it is first asked for.
func (*Factory) Start(<-chan struct{}) {}

// StartWithContext does nothing; see Start.
func (*Factory) StartWithContext(context.Context) {}

// Shutdown does nothing: the scope is closed with its generation.
func (*Factory) Shutdown() {}

// WaitForCacheSync waits until the informers that were lent have synced.
func (s *Factory) WaitForCacheSync(stop <-chan struct{}) map[reflect.Type]bool {
	return s.WaitForCacheSyncWithContext(wait.ContextForChannel(stop)).Synced
}

// WaitForCacheSyncWithContext waits until the informers that were lent have
// synced.
func (s *Factory) WaitForCacheSyncWithContext(ctx context.Context) cache.SyncResult {
	s.mu.Lock()
	lent := map[reflect.Type]*scopedInformer{}
	for kind, i := range s.informers {
		lent[kind] = i
	}
	s.mu.Unlock()
	result := cache.SyncResult{Synced: map[reflect.Type]bool{}}
	for kind, i := range lent {
		if s.pool.options.Wait(ctx, i.HasSyncedChecker().Done()) != nil {
			result.Err = context.Cause(ctx)
		}
		result.Synced[kind] = i.HasSynced()
	}
	return result
}

// Pending is an informer, a handler or an index that has not synced.
type Pending struct {
	// Kind is what it is about: a Go type, as v1.Node, or the name of an event's resource.
	Kind string
	// Done is closed when it has synced.
	Done <-chan struct{}
}

// Pending are what has still to be heard before the plugins of the scope know
// what there is: the handlers and indexes that were added, and the informers
// that run for plugins alone.
func (s *Factory) Pending() []Pending {
	s.mu.Lock()
	defer s.mu.Unlock()
	var pending []Pending
	for kind, i := range s.informers {
		for _, done := range i.pending() {
			pending = append(pending, Pending{strings.TrimPrefix(kind.String(), "*"), done})
		}
	}
	for resource, e := range s.eventSources {
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

// Close removes every handler, forgets every index and gives back what was
// borrowed. Nothing of the scope is called when it returns.
func (s *Factory) Close() {
	s.mu.Lock()
	lent, back, ears := s.informers, s.releases, s.eventSources
	s.closed, s.informers, s.releases, s.eventSources = true, map[reflect.Type]*scopedInformer{}, nil, nil
	s.mu.Unlock()
	for _, e := range ears {
		s.pool.unsubscribe(e, s)
	}
	for _, i := range lent {
		i.close()
	}
	for _, give := range back {
		give()
	}
}

// plural guesses a kind's resource as client-go's own informers are named.
func plural(kind schema.GroupVersionKind) string {
	guess, _ := meta.UnsafeGuessKindToResource(kind)
	return guess.Resource
}
