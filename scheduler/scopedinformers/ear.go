package scopedinformers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
)

// lookAgain is how long a resource is left alone that cannot be watched.
const retryInterval = 2 * time.Second

// ear listens to one resource that the house does not watch, for as long as some
// scope wants to hear of it. That it cannot be watched, since it is not served yet
// or Berth may not, is nothing to wait for: it is looked for again and again.
type eventSource struct {
	resource fwk.EventResource
	target   watchTarget
	// ctx is that of listen; stop ends it.
	ctx     context.Context
	stop    context.CancelFunc
	stopped chan struct{}
	// known is closed when everything that is there has been heard of, or why
	// that cannot be is known.
	synced     chan struct{}
	syncedOnce sync.Once // closes known

	// Guarded by the Pool's lock.
	factories map[*Factory]struct{}
	err       error
}

// Hear has the Pool's Tell told of a resource's events as long as the scope
// lives. Pending holds until what is there has been told, or cannot be. The error
// says what is wrong with the name.
func (s *Factory) Subscribe(resource fwk.EventResource) error {
	if s.pool.options.Dynamic == nil {
		return nil
	}
	from, err := s.pool.targetOf(resource)
	if err != nil || from == nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return ErrClosed
	case s.eventSources[resource] == nil:
		s.eventSources[resource] = s.pool.subscribe(resource, *from, s)
	}
	return nil
}

// Deaf says which of the resources the scope wants to hear of cannot be watched,
// and why.
func (s *Factory) MissedEvents() map[fwk.EventResource]error {
	s.mu.Lock()
	ears := maps.Clone(s.eventSources)
	s.mu.Unlock()
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	maps.DeleteFunc(ears, func(_ fwk.EventResource, e *eventSource) bool { return e.err == nil })
	deaf := map[fwk.EventResource]error{}
	for resource, e := range ears {
		deaf[resource] = e.err
	}
	return deaf
}

// WhenDeaf has tell called, without a lock, when Deaf changes.
func (s *Factory) OnMissedEventsChange(tell func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onMissedEventsChange = tell
}

func (p *Pool) subscribe(resource fwk.EventResource, from watchTarget, s *Factory) *eventSource {
	p.mu.Lock()
	e, known := p.eventSources[resource]
	if !known {
		e = &eventSource{resource: resource, target: from, factories: map[*Factory]struct{}{}, stopped: make(chan struct{}), synced: make(chan struct{})}
		e.ctx, e.stop = context.WithCancel(context.Background())
		p.eventSources[resource] = e
	}
	e.factories[s] = struct{}{}
	p.mu.Unlock()
	if !known {
		p.options.Go(func() {
			defer close(e.stopped)
			p.runEventSource(e.ctx, e)
		})
	}
	return e
}

// unhear ends an ear that nobody else wants.
func (p *Pool) unsubscribe(e *eventSource, s *Factory) {
	p.mu.Lock()
	delete(e.factories, s)
	last := len(e.factories) == 0
	if last {
		delete(p.eventSources, e.resource)
	}
	p.mu.Unlock()
	if last {
		e.stop()
		p.waitFor(e.stopped)
	}
}

// listen is an ear's life.
func (p *Pool) runEventSource(ctx context.Context, e *eventSource) {
	if !p.waitUntilWatchable(ctx, e) {
		return
	}
	shared, back := p.acquirePluginInformer(e.target.key, func() cache.SharedIndexInformer { return p.informerOf(e.target) })
	defer back()
	handler, err := shared.informer.AddEventHandler(p.eventHandler(e.resource))
	if err != nil {
		p.setError(e, err) // only a stopped informer takes none, and this one is ours
		return
	}
	defer func() { _ = shared.informer.RemoveEventHandler(handler) }()
	p.options.Go(func() {
		if p.options.Wait(ctx, handler.HasSyncedChecker().Done()) == nil {
			e.markSynced()
		}
	})
	for p.options.Wait(ctx, shared.broken) == nil {
		if apierrors.ReasonForError(*shared.watchError.Load()) == metav1.StatusReasonUnknown {
			continue // it is the connection, not the resource
		}
		if !p.waitUntilWatchable(ctx, e) {
			return
		}
	}
}

// reach returns when the resource can be listed and watched; false when ctx ends
// first.
func (p *Pool) waitUntilWatchable(ctx context.Context, e *eventSource) bool {
	for {
		err := p.checkWatchable(ctx, e.target)
		if ctx.Err() != nil {
			return false
		}
		p.setError(e, err)
		if err == nil {
			return true
		}
		e.markSynced()
		select {
		case <-ctx.Done():
			return false
		case <-p.options.Clock.After(retryInterval):
		}
	}
}

// probe asks for one object and for a watch: a reflector that may not have them
// says so nowhere but in the log.
func (p *Pool) checkWatchable(ctx context.Context, of watchTarget) error {
	resource := p.options.Dynamic.Resource(of.GroupVersionResource)
	list, err := resource.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return fmt.Errorf("listing them: %w", err)
	}
	watch, err := resource.Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion(), TimeoutSeconds: new(int64(1))})
	if err != nil {
		return fmt.Errorf("watching them: %w", err)
	}
	watch.Stop()
	return nil
}

func (p *Pool) informerOf(of watchTarget) cache.SharedIndexInformer {
	if of.typed {
		return newInformerFunc(of.GroupVersionResource)(p.options.Client, 0)
	}
	return dynamicinformer.NewFilteredDynamicInformer(p.options.Dynamic, of.GroupVersionResource, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
}

// teller hands events on. What a hint sees of a deletion that was missed is the
// last state that is known.
func (p *Pool) eventHandler(resource fwk.EventResource) cache.ResourceEventHandler {
	tell := func(action fwk.ActionType, before, after any) {
		p.options.OnEvent(fwk.ClusterEvent{Resource: resource, ActionType: action}, before, after)
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { tell(fwk.Add, nil, obj) },
		UpdateFunc: func(before, after any) { tell(fwk.Update, before, after) },
		DeleteFunc: func(obj any) {
			if tomb, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tomb.Obj
			}
			tell(fwk.Delete, obj, nil)
		},
	}
}

// became notes whether the resource can be watched, and tells whom it concerns.
func (p *Pool) setError(e *eventSource, deaf error) {
	p.mu.Lock()
	same := (deaf == nil) == (e.err == nil) && (deaf == nil || deaf.Error() == e.err.Error())
	e.err = deaf
	concerned := slices.Collect(maps.Keys(e.factories))
	p.mu.Unlock()
	if same {
		return
	}
	for _, s := range concerned {
		s.mu.Lock()
		tell := s.onMissedEventsChange
		s.mu.Unlock()
		if tell != nil {
			tell()
		}
	}
}

// isKnown closes known, once.
func (e *eventSource) markSynced() { e.syncedOnce.Do(func() { close(e.synced) }) }
