package scopedinformers

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/cache"
)

// scopedInformer is a shared informer as a Factory returns it. It remembers the handlers
// and indexes that are added to it, so that close removes them.
type scopedInformer struct {
	cache.SharedIndexInformer
	// pluginOnly says that only plugins use the informer.
	pluginOnly bool
	// notServed says that the API server does not serve the kind: the informer is never
	// started and counts as synced.
	notServed bool
	// changes tracks the changes of the shared store.
	changes *changeTracker
	log     logr.Logger

	mu            sync.Mutex
	closed        bool
	registrations []registration
	scopedIndex   *scopedIndex
}

// registration is a handler's registration and its guard.
type registration struct {
	cache.ResourceEventHandlerRegistration
	handler *guardedHandler
}

// errReadOnly is returned to plugins that try to change what all users of a shared
// informer have in common.
var errReadOnly = errors.New("the informer is shared: plugins cannot change its store, its watch or its lifetime")

// AddEventHandler adds a handler that the Factory's Close removes.
func (i *scopedInformer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.add(h, i.SharedIndexInformer.AddEventHandler)
}

// AddEventHandlerWithResyncPeriod adds a handler that the Factory's Close removes.
func (i *scopedInformer) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler, every time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.add(h, func(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
		return i.SharedIndexInformer.AddEventHandlerWithResyncPeriod(h, every)
	})
}

// AddEventHandlerWithOptions adds a handler that the Factory's Close removes.
func (i *scopedInformer) AddEventHandlerWithOptions(h cache.ResourceEventHandler, o cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.add(h, func(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
		return i.SharedIndexInformer.AddEventHandlerWithOptions(h, o)
	})
}

func (i *scopedInformer) add(
	h cache.ResourceEventHandler, register func(cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error),
) (cache.ResourceEventHandlerRegistration, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return nil, ErrClosed
	}
	f := &guardedHandler{handler: h, log: i.log}
	added, err := register(f)
	if err != nil {
		return nil, err
	}
	i.registrations = append(i.registrations, registration{added, f})
	return added, nil
}

// RemoveEventHandler removes a handler before the Factory is closed.
func (i *scopedInformer) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	i.mu.Lock()
	i.registrations = slices.DeleteFunc(i.registrations, func(r registration) bool { return r.ResourceEventHandlerRegistration == handle })
	i.mu.Unlock()
	return i.SharedIndexInformer.RemoveEventHandler(handle)
}

// pending returns channels that close when the handlers, the indexes, and an informer
// that only plugins use have synced.
func (i *scopedInformer) pending() []<-chan struct{} {
	i.mu.Lock()
	defer i.mu.Unlock()
	var pending []<-chan struct{}
	if i.notServed {
		return nil
	}
	if i.pluginOnly || i.scopedIndex != nil {
		pending = append(pending, i.HasSyncedChecker().Done())
	}
	for _, r := range i.registrations {
		pending = append(pending, r.HasSyncedChecker().Done())
	}
	return pending
}

func (i *scopedInformer) close() {
	i.mu.Lock()
	i.closed = true
	registrations, own := i.registrations, i.scopedIndex
	i.registrations, i.scopedIndex = nil, nil
	i.mu.Unlock()
	if own != nil {
		i.changes.removeFollower(own)
	}
	for _, r := range registrations {
		r.handler.closed.Store(true)
		// This only fails for a registration of another informer.
		_ = i.SharedIndexInformer.RemoveEventHandler(r.ResourceEventHandlerRegistration)
	}
}

// HasSynced reports whether the informer holds all objects that existed at its start.
func (i *scopedInformer) HasSynced() bool { return i.notServed || i.SharedIndexInformer.HasSynced() }

// HasSyncedChecker returns a checker that is done once HasSynced is true.
func (i *scopedInformer) HasSyncedChecker() cache.DoneChecker {
	if i.notServed {
		return alwaysSynced{}
	}
	return i.SharedIndexInformer.HasSyncedChecker()
}

// alwaysSynced is a checker that is done from the start.
type alwaysSynced struct{}

func (alwaysSynced) Name() string { return "a kind that is not served" }

func (alwaysSynced) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

// Run does nothing: the informer is already running.
func (*scopedInformer) Run(<-chan struct{}) {}

// RunWithContext does nothing: the informer is already running.
func (*scopedInformer) RunWithContext(context.Context) {}

// SetTransform returns an error: other users read the same objects.
func (*scopedInformer) SetTransform(cache.TransformFunc) error { return errReadOnly }

// SetWatchErrorHandler returns an error: the watch is shared.
func (*scopedInformer) SetWatchErrorHandler(cache.WatchErrorHandler) error { return errReadOnly }

// SetWatchErrorHandlerWithContext returns an error: the watch is shared.
func (*scopedInformer) SetWatchErrorHandlerWithContext(cache.WatchErrorHandlerWithContext) error {
	return errReadOnly
}

// guardedHandler wraps a plugin's event handler. After the Factory was closed it drops
// events, and it recovers panics, which end one call instead of the process.
type guardedHandler struct {
	handler cache.ResourceEventHandler
	closed  atomic.Bool
	log     logr.Logger
}

// OnAdd calls the handler's OnAdd.
func (f *guardedHandler) OnAdd(obj any, initial bool) {
	f.invoke("OnAdd", func() { f.handler.OnAdd(obj, initial) })
}

// OnUpdate calls the handler's OnUpdate.
func (f *guardedHandler) OnUpdate(before, after any) {
	f.invoke("OnUpdate", func() { f.handler.OnUpdate(before, after) })
}

// OnDelete calls the handler's OnDelete.
func (f *guardedHandler) OnDelete(obj any) {
	f.invoke("OnDelete", func() { f.handler.OnDelete(obj) })
}

func (f *guardedHandler) invoke(method string, call func()) {
	if f.closed.Load() {
		return
	}
	defer func() {
		if r := recover(); r != nil {
			f.log.Error(fmt.Errorf("%v", r), "A plugin's informer handler panicked; the event is lost to it",
				"handler", fmt.Sprintf("%T", f.handler), "method", method, "stack", string(debug.Stack()))
		}
	}()
	call()
}
