package scope

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
const lookAgain = 2 * time.Second

// ear listens to one resource that the house does not watch, for as long as some
// scope wants to hear of it. That it cannot be watched, since it is not served yet
// or Berth may not, is nothing to wait for: it is looked for again and again.
type ear struct {
	resource fwk.EventResource
	source   source
	// ctx is that of listen; stop ends it.
	ctx     context.Context
	stop    context.CancelFunc
	stopped chan struct{}
	// known is closed when everything that is there has been heard of, or why
	// that cannot be is known.
	known chan struct{}
	heard sync.Once // closes known

	// Guarded by the Pool's lock.
	scopes map[*Scope]struct{}
	deaf   error
}

// Hear has the Pool's Tell told of a resource's events as long as the scope
// lives. Pending holds until what is there has been told, or cannot be. The error
// says what is wrong with the name.
func (s *Scope) Hear(resource fwk.EventResource) error {
	if s.pool.options.Dynamic == nil {
		return nil
	}
	from, err := s.pool.sourceOf(resource)
	if err != nil || from == nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return ErrOver
	case s.ears[resource] == nil:
		s.ears[resource] = s.pool.hear(resource, *from, s)
	}
	return nil
}

// Deaf says which of the resources the scope wants to hear of cannot be watched,
// and why.
func (s *Scope) Deaf() map[fwk.EventResource]error {
	s.mu.Lock()
	ears := maps.Clone(s.ears)
	s.mu.Unlock()
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	maps.DeleteFunc(ears, func(_ fwk.EventResource, e *ear) bool { return e.deaf == nil })
	deaf := map[fwk.EventResource]error{}
	for resource, e := range ears {
		deaf[resource] = e.deaf
	}
	return deaf
}

// WhenDeaf has tell called, without a lock, when Deaf changes.
func (s *Scope) WhenDeaf(tell func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = tell
}

func (p *Pool) hear(resource fwk.EventResource, from source, s *Scope) *ear {
	p.mu.Lock()
	e, known := p.ears[resource]
	if !known {
		e = &ear{resource: resource, source: from, scopes: map[*Scope]struct{}{}, stopped: make(chan struct{}), known: make(chan struct{})}
		e.ctx, e.stop = context.WithCancel(context.Background())
		p.ears[resource] = e
	}
	e.scopes[s] = struct{}{}
	p.mu.Unlock()
	if !known {
		p.options.Go(func() {
			defer close(e.stopped)
			p.listen(e.ctx, e)
		})
	}
	return e
}

// unhear ends an ear that nobody else wants.
func (p *Pool) unhear(e *ear, s *Scope) {
	p.mu.Lock()
	delete(e.scopes, s)
	last := len(e.scopes) == 0
	if last {
		delete(p.ears, e.resource)
	}
	p.mu.Unlock()
	if last {
		e.stop()
		p.await(e.stopped)
	}
}

// listen is an ear's life.
func (p *Pool) listen(ctx context.Context, e *ear) {
	if !p.reach(ctx, e) {
		return
	}
	shared, back := p.share(e.source.key, func() cache.SharedIndexInformer { return p.informerOf(e.source) })
	defer back()
	handler, err := shared.informer.AddEventHandler(p.teller(e.resource))
	if err != nil {
		p.became(e, err) // only a stopped informer takes none, and this one is ours
		return
	}
	defer func() { _ = shared.informer.RemoveEventHandler(handler) }()
	p.options.Go(func() {
		if p.options.Wait(ctx, handler.HasSyncedChecker().Done()) == nil {
			e.isKnown()
		}
	})
	for p.options.Wait(ctx, shared.broken) == nil {
		if apierrors.ReasonForError(*shared.why.Load()) == metav1.StatusReasonUnknown {
			continue // it is the connection, not the resource
		}
		if !p.reach(ctx, e) {
			return
		}
	}
}

// reach returns when the resource can be listed and watched; false when ctx ends
// first.
func (p *Pool) reach(ctx context.Context, e *ear) bool {
	for {
		err := p.probe(ctx, e.source)
		if ctx.Err() != nil {
			return false
		}
		p.became(e, err)
		if err == nil {
			return true
		}
		e.isKnown()
		select {
		case <-ctx.Done():
			return false
		case <-p.options.Clock.After(lookAgain):
		}
	}
}

// probe asks for one object and for a watch: a reflector that may not have them
// says so nowhere but in the log.
func (p *Pool) probe(ctx context.Context, of source) error {
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

func (p *Pool) informerOf(of source) cache.SharedIndexInformer {
	if of.typed {
		return makerOf(of.GroupVersionResource)(p.options.Client, 0)
	}
	return dynamicinformer.NewFilteredDynamicInformer(p.options.Dynamic, of.GroupVersionResource, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
}

// teller hands events on. What a hint sees of a deletion that was missed is the
// last state that is known.
func (p *Pool) teller(resource fwk.EventResource) cache.ResourceEventHandler {
	tell := func(action fwk.ActionType, before, after any) {
		p.options.Tell(fwk.ClusterEvent{Resource: resource, ActionType: action}, before, after)
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
func (p *Pool) became(e *ear, deaf error) {
	p.mu.Lock()
	same := (deaf == nil) == (e.deaf == nil) && (deaf == nil || deaf.Error() == e.deaf.Error())
	e.deaf = deaf
	concerned := slices.Collect(maps.Keys(e.scopes))
	p.mu.Unlock()
	if same {
		return
	}
	for _, s := range concerned {
		s.mu.Lock()
		tell := s.changed
		s.mu.Unlock()
		if tell != nil {
			tell()
		}
	}
}

// isKnown closes known, once.
func (e *ear) isKnown() { e.heard.Do(func() { close(e.known) }) }
