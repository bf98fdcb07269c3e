package scopedinformers

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// retryInterval is the time between two attempts to watch a resource.
const retryInterval = 2 * time.Second

// eventSource delivers the events of one resource that Berth itself does not watch, as
// long as some Factory subscribes to it. While the resource cannot be watched, because
// it is not served yet or Berth lacks the permission, the eventSource retries, and no
// build waits for it.
type eventSource struct {
	resource fwk.EventResource
	target   watchTarget
	// ctx is the context of runEventSource; stop cancels it.
	ctx     context.Context
	stop    context.CancelFunc
	stopped chan struct{}
	// synced is closed when the events of all existing objects were delivered, or when
	// it is known why they cannot be.
	synced     chan struct{}
	syncedOnce sync.Once // closes synced

	// The Pool's lock guards these. err says why the resource cannot be watched.
	factories map[*Factory]struct{}
	err       error
}

// Subscribe delivers the events of a resource to the Pool's queue until the Factory is
// closed. Until the existing objects are delivered, or cannot be, Pending returns the
// subscription. The error says that the name of the resource is invalid.
func (f *Factory) Subscribe(resource fwk.EventResource) error {
	if f.pool.options.Dynamic == nil {
		return nil
	}
	target, err := f.pool.targetOf(resource)
	if err != nil || target == nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return ErrClosed
	case f.eventSources[resource] == nil:
		f.eventSources[resource] = f.pool.subscribe(resource, *target, f)
	}
	return nil
}

// MissedEvents returns the subscribed resources that cannot be watched, with the reason.
func (f *Factory) MissedEvents() map[fwk.EventResource]error {
	f.mu.Lock()
	sources := maps.Clone(f.eventSources)
	f.mu.Unlock()
	f.pool.mu.Lock()
	defer f.pool.mu.Unlock()
	maps.DeleteFunc(sources, func(_ fwk.EventResource, e *eventSource) bool { return e.err == nil })
	missed := map[fwk.EventResource]error{}
	for resource, e := range sources {
		missed[resource] = e.err
	}
	return missed
}

func (p *Pool) subscribe(resource fwk.EventResource, target watchTarget, f *Factory) *eventSource {
	p.mu.Lock()
	e, known := p.eventSources[resource]
	if !known {
		e = &eventSource{resource: resource, target: target, factories: map[*Factory]struct{}{}, stopped: make(chan struct{}), synced: make(chan struct{})}
		e.ctx, e.stop = context.WithCancel(context.Background())
		p.eventSources[resource] = e
	}
	e.factories[f] = struct{}{}
	p.mu.Unlock()
	if !known {
		p.options.Go(func() {
			defer close(e.stopped)
			p.runEventSource(e.ctx, e)
		})
	}
	return e
}

// unsubscribe removes a Factory, and stops the eventSource after its last one.
func (p *Pool) unsubscribe(e *eventSource, f *Factory) {
	p.mu.Lock()
	delete(e.factories, f)
	last := len(e.factories) == 0
	if last {
		delete(p.eventSources, e.resource)
	}
	p.mu.Unlock()
	if last {
		e.stop()
		_ = p.options.Wait(context.Background(), e.stopped)
	}
}

// runEventSource delivers events until ctx ends.
func (p *Pool) runEventSource(ctx context.Context, e *eventSource) {
	if !p.waitUntilWatchable(ctx, e) {
		return
	}
	shared, release := p.acquirePluginInformer(e.target.key, func() cache.SharedIndexInformer { return p.informerOf(e.target) })
	defer release()
	handler, err := shared.informer.AddEventHandler(p.eventHandler(e.resource))
	if err != nil {
		p.setError(e, err) // only a stopped informer accepts none, and this one runs
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
			continue // the connection failed, which says nothing about the resource
		}
		if !p.waitUntilWatchable(ctx, e) {
			return
		}
	}
}

// waitUntilWatchable returns true once the resource can be listed and watched, and false
// when ctx ends first.
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

// checkWatchable lists one object and opens a watch, since a reflector reports a missing
// permission only in the log.
func (p *Pool) checkWatchable(ctx context.Context, target watchTarget) error {
	resource := p.options.Dynamic.Resource(target.GroupVersionResource)
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

func (p *Pool) informerOf(target watchTarget) cache.SharedIndexInformer {
	if target.typed {
		return newInformerFunc(target.GroupVersionResource)(p.options.Client, 0)
	}
	return dynamicinformer.NewFilteredDynamicInformer(p.options.Dynamic, target.GroupVersionResource, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
}

// eventHandler returns the handler that passes events to the queue. After a deletion that
// the watch missed, it passes the last known state, also where another object of the name
// exists by then, which the informer delivers as an update.
func (p *Pool) eventHandler(resource fwk.EventResource) cache.ResourceEventHandler {
	deliver := func(action fwk.ActionType, before, after any) {
		ctx := klog.NewContext(context.Background(), p.options.Log)
		p.options.Queue.Event(ctx, fwk.ClusterEvent{Resource: resource, ActionType: action}, before, after, nil)
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { deliver(fwk.Add, nil, obj) },
		UpdateFunc: func(before, after any) {
			if before.(metav1.Object).GetUID() != after.(metav1.Object).GetUID() {
				deliver(fwk.Delete, before, nil)
				deliver(fwk.Add, nil, after)
				return
			}
			deliver(fwk.Update, before, after)
		},
		DeleteFunc: func(obj any) {
			if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = unknown.Obj
			}
			deliver(fwk.Delete, obj, nil)
		},
	}
}

// setError records why the resource cannot be watched, nil if it can, and notifies the
// subscribed factories of a change.
func (p *Pool) setError(e *eventSource, err error) {
	p.mu.Lock()
	same := (err == nil) == (e.err == nil) && (err == nil || err.Error() == e.err.Error())
	e.err = err
	factories := slices.Collect(maps.Keys(e.factories))
	p.mu.Unlock()
	if same {
		return
	}
	for _, f := range factories {
		if f.onMissedEventsChange != nil {
			f.onMissedEventsChange()
		}
	}
}

// markSynced closes synced, once.
func (e *eventSource) markSynced() { e.syncedOnce.Do(func() { close(e.synced) }) }

// eventResources maps the events that have a name of their own to their resources. Other
// events are named by the resource, as foos.v1.example.com.
// Source: k8s.io/kubernetes/pkg/scheduler, addAllEventHandlers.
var eventResources = map[fwk.EventResource]schema.GroupVersionResource{
	fwk.PersistentVolume:      {Version: "v1", Resource: "persistentvolumes"},
	fwk.PersistentVolumeClaim: {Version: "v1", Resource: "persistentvolumeclaims"},
	fwk.CSINode:               {Group: "storage.k8s.io", Version: "v1", Resource: "csinodes"},
	fwk.CSIDriver:             {Group: "storage.k8s.io", Version: "v1", Resource: "csidrivers"},
	fwk.CSIStorageCapacity:    {Group: "storage.k8s.io", Version: "v1", Resource: "csistoragecapacities"},
	fwk.StorageClass:          {Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"},
	fwk.VolumeAttachment:      {Group: "storage.k8s.io", Version: "v1", Resource: "volumeattachments"},
	fwk.ResourceClaim:         {Group: "resource.k8s.io", Version: "v1", Resource: "resourceclaims"},
	fwk.ResourceSlice:         {Group: "resource.k8s.io", Version: "v1", Resource: "resourceslices"},
	fwk.DeviceClass:           {Group: "resource.k8s.io", Version: "v1", Resource: "deviceclasses"},
	fwk.PodGroup:              {Group: "scheduling.k8s.io", Version: "v1beta1", Resource: "podgroups"},
	fwk.CompositePodGroup:     {Group: "scheduling.k8s.io", Version: "v1alpha3", Resource: "compositepodgroups"},
}

// watchTarget says which resource to watch for an event, and how.
type watchTarget struct {
	schema.GroupVersionResource
	// typed says that client-go has a Go type for the resource.
	typed bool
	// key is the key of the informer in pluginInformers.
	key any
}

// targetOf returns the watchTarget of a resource; nil where Berth itself delivers the
// events. It is also nil for a kind that is not served and has no stable version: API servers
// serve alpha and beta versions only when asked to, so no events of them are missed. The
// error says what a valid name is.
func (p *Pool) targetOf(resource fwk.EventResource) (*watchTarget, error) {
	if gvr, ok := eventResources[resource]; ok {
		obj, err := p.objectOf(gvr)
		if err != nil {
			return nil, err
		}
		kind := reflect.TypeOf(obj)
		if p.isWatched(kind) || gvr.Version != "v1" && p.isNotServed(kind) {
			return nil, nil
		}
		return &watchTarget{gvr, true, kind}, nil
	}
	if slices.Contains(p.options.OwnEvents, resource) {
		return nil, nil
	}
	gvr, _ := schema.ParseResourceArg(string(resource))
	if gvr == nil || gvr.Resource == "" || gvr.Version == "" {
		return nil, fmt.Errorf("%q is no resource: want plural.version.group, such as foos.v1.example.com", resource)
	}
	return &watchTarget{*gvr, false, *gvr}, nil
}
