package scopedinformers

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/cache"
)

// informer is a shared one as a scope lends it: what is added to it can be
// taken away.
type scopedInformer struct {
	cache.SharedIndexInformer
	// extra says that it runs for plugins alone.
	pluginOnly bool
	// none says that there is nothing to hear, ever: it does not run.
	notServed bool
	// changes are those of the shared store.
	changes *changeTracker
	log     logr.Logger

	mu            sync.Mutex
	closed        bool
	registrations []registration
	scopedIndex   *scopedIndex
}

// registration is a handler, and the fence in front of it.
type registration struct {
	cache.ResourceEventHandlerRegistration
	handler *guardedHandler
}

// errNotYours is what a plugin is told that wants to change what all share.
var errReadOnly = errors.New("the informer is shared: its store, its watch and its life are the house's")

// AddEventHandler adds a handler that goes with the scope.
func (i *scopedInformer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.add(h, i.SharedIndexInformer.AddEventHandler)
}

// AddEventHandlerWithResyncPeriod adds a handler that goes with the scope.
func (i *scopedInformer) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler, every time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.add(h, func(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
		return i.SharedIndexInformer.AddEventHandlerWithResyncPeriod(h, every)
	})
}

// AddEventHandlerWithOptions adds a handler that goes with the scope.
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

// RemoveEventHandler removes a handler before its time.
func (i *scopedInformer) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	i.mu.Lock()
	i.registrations = slices.DeleteFunc(i.registrations, func(r registration) bool { return r.ResourceEventHandlerRegistration == handle })
	i.mu.Unlock()
	return i.SharedIndexInformer.RemoveEventHandler(handle)
}

// pending is what has not been heard yet.
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
		// It fails only for what is no registration of this informer.
		_ = i.SharedIndexInformer.RemoveEventHandler(r.ResourceEventHandlerRegistration)
	}
}

// HasSynced says whether all is known that was there at the start.
func (i *scopedInformer) HasSynced() bool { return i.notServed || i.SharedIndexInformer.HasSynced() }

// HasSyncedChecker tells when HasSynced turns true.
func (i *scopedInformer) HasSyncedChecker() cache.DoneChecker {
	if i.notServed {
		return alwaysSynced{}
	}
	return i.SharedIndexInformer.HasSyncedChecker()
}

// nothingToHear is done from the beginning.
type alwaysSynced struct{}

func (alwaysSynced) Name() string { return "a kind that is not served" }

func (alwaysSynced) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

// Run does nothing: the informer runs already.
func (*scopedInformer) Run(<-chan struct{}) {}

// RunWithContext does nothing: the informer runs already.
func (*scopedInformer) RunWithContext(context.Context) {}

// SetTransform is refused: others read the same objects.
func (*scopedInformer) SetTransform(cache.TransformFunc) error { return errReadOnly }

// SetWatchErrorHandler is refused: the watch is the house's.
func (*scopedInformer) SetWatchErrorHandler(cache.WatchErrorHandler) error { return errReadOnly }

// SetWatchErrorHandlerWithContext is refused: the watch is the house's.
func (*scopedInformer) SetWatchErrorHandlerWithContext(cache.WatchErrorHandlerWithContext) error {
	return errReadOnly
}
