package scope

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
type informer struct {
	cache.SharedIndexInformer
	// extra says that it runs for plugins alone.
	extra bool
	// none says that there is nothing to hear, ever: it does not run.
	none bool
	// changes are those of the shared store.
	changes *changes
	log     logr.Logger

	mu            sync.Mutex
	closed        bool
	registrations []registration
	own           *index
}

// registration is a handler, and the fence in front of it.
type registration struct {
	cache.ResourceEventHandlerRegistration
	fence *fence
}

// errNotYours is what a plugin is told that wants to change what all share.
var errNotYours = errors.New("the informer is shared: its store, its watch and its life are the house's")

// AddEventHandler adds a handler that goes with the scope.
func (i *informer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.add(h, i.SharedIndexInformer.AddEventHandler)
}

// AddEventHandlerWithResyncPeriod adds a handler that goes with the scope.
func (i *informer) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler, every time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.add(h, func(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
		return i.SharedIndexInformer.AddEventHandlerWithResyncPeriod(h, every)
	})
}

// AddEventHandlerWithOptions adds a handler that goes with the scope.
func (i *informer) AddEventHandlerWithOptions(h cache.ResourceEventHandler, o cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.add(h, func(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
		return i.SharedIndexInformer.AddEventHandlerWithOptions(h, o)
	})
}

func (i *informer) add(
	h cache.ResourceEventHandler, register func(cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error),
) (cache.ResourceEventHandlerRegistration, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return nil, ErrOver
	}
	f := &fence{handler: h, log: i.log}
	added, err := register(f)
	if err != nil {
		return nil, err
	}
	i.registrations = append(i.registrations, registration{added, f})
	return added, nil
}

// RemoveEventHandler removes a handler before its time.
func (i *informer) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	i.mu.Lock()
	i.registrations = slices.DeleteFunc(i.registrations, func(r registration) bool { return r.ResourceEventHandlerRegistration == handle })
	i.mu.Unlock()
	return i.SharedIndexInformer.RemoveEventHandler(handle)
}

// pending is what has not been heard yet.
func (i *informer) pending() []<-chan struct{} {
	i.mu.Lock()
	defer i.mu.Unlock()
	var pending []<-chan struct{}
	if i.none {
		return nil
	}
	if i.extra || i.own != nil {
		pending = append(pending, i.HasSyncedChecker().Done())
	}
	for _, r := range i.registrations {
		pending = append(pending, r.HasSyncedChecker().Done())
	}
	return pending
}

func (i *informer) close() {
	i.mu.Lock()
	i.closed = true
	registrations, own := i.registrations, i.own
	i.registrations, i.own = nil, nil
	i.mu.Unlock()
	if own != nil {
		i.changes.unfollow(own)
	}
	for _, r := range registrations {
		r.fence.over.Store(true)
		// It fails only for what is no registration of this informer.
		_ = i.SharedIndexInformer.RemoveEventHandler(r.ResourceEventHandlerRegistration)
	}
}

// HasSynced says whether all is known that was there at the start.
func (i *informer) HasSynced() bool { return i.none || i.SharedIndexInformer.HasSynced() }

// HasSyncedChecker tells when HasSynced turns true.
func (i *informer) HasSyncedChecker() cache.DoneChecker {
	if i.none {
		return nothingToHear{}
	}
	return i.SharedIndexInformer.HasSyncedChecker()
}

// nothingToHear is done from the beginning.
type nothingToHear struct{}

func (nothingToHear) Name() string { return "a kind that is not served" }

func (nothingToHear) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

// Run does nothing: the informer runs already.
func (*informer) Run(<-chan struct{}) {}

// RunWithContext does nothing: the informer runs already.
func (*informer) RunWithContext(context.Context) {}

// SetTransform is refused: others read the same objects.
func (*informer) SetTransform(cache.TransformFunc) error { return errNotYours }

// SetWatchErrorHandler is refused: the watch is the house's.
func (*informer) SetWatchErrorHandler(cache.WatchErrorHandler) error { return errNotYours }

// SetWatchErrorHandlerWithContext is refused: the watch is the house's.
func (*informer) SetWatchErrorHandlerWithContext(cache.WatchErrorHandlerWithContext) error {
	return errNotYours
}
