package ui

import (
	"context"
	"sync"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pageSize is how many objects are listed at a time. No more of them are in memory at once:
// each page is reduced to records before the next one is read.
const pageSize = 500

// entry is an object as the reflector handles it: what identifies it, and its record.
type entry struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	// record is nil for an object that is not shown.
	record any
}

// DeepCopyObject makes an entry a runtime.Object. Records do not change, so they are shared.
func (e *entry) DeepCopyObject() runtime.Object {
	return &entry{TypeMeta: e.TypeMeta, ObjectMeta: *e.ObjectMeta.DeepCopy(), record: e.record}
}

// source lists and watches one kind for live. The reflector calls its methods one after
// another.
type source struct {
	*kind
	live *live
	// namespace is where the kind is listed and watched; empty for all namespaces.
	namespace string
}

// run keeps the records of live up to date until ctx ends.
func (s *source) run(ctx context.Context) {
	lw := toolscache.ToListWatcherWithWatchListSemantics(&toolscache.ListWatch{
		ListWithContextFunc: s.listPage, WatchFuncWithContext: s.watch,
	}, s.live.client)
	r := toolscache.NewReflectorWithOptions(lw, &entry{}, s, toolscache.ReflectorOptions{Name: s.resource, TypeDescription: s.resource})
	r.WatchListPageSize = pageSize
	// Notes on the page say what the reflector would log.
	r.RunWithContext(klog.NewContext(ctx, logr.Discard()))
}

// listPage lists a page of objects, in all namespaces or where the user may.
func (s *source) listPage(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	page, err := s.listIn(ctx, s.namespace, options)
	if apierrors.IsForbidden(err) && s.namespaced && s.namespace == "" {
		own, ownErr := s.listIn(ctx, s.live.namespace, options)
		if ownErr == nil {
			s.namespace, page, err = s.live.namespace, own, nil
		}
	}
	if err != nil {
		s.namespace = "" // the user may have other permissions now
		s.live.setListNote(s.kind, s.listNote(err))
		s.live.setAnswered(s.kind)
		return nil, err
	}
	return page, nil
}

func (s *source) listIn(ctx context.Context, namespace string, options metav1.ListOptions) (*metainternalversion.List, error) {
	list := s.list()
	// Without a resource version the API server returns pages.
	err := s.live.client.List(ctx, list, &client.ListOptions{
		Namespace: namespace, FieldSelector: s.selected, Limit: options.Limit, Continue: options.Continue,
	})
	if meta.IsNoMatchError(err) {
		s.live.rediscover()
	}
	if err != nil {
		return nil, err
	}
	page := &metainternalversion.List{}
	page.ResourceVersion, page.Continue = list.GetResourceVersion(), list.GetContinue()
	err = meta.EachListItem(list, func(object runtime.Object) error {
		page.Items = append(page.Items, s.entryOf(object))
		return nil
	})
	return page, err
}

// watch watches from a resource version on.
func (s *source) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	begins := ptr.Deref(options.SendInitialEvents, false)
	w, err := s.live.client.Watch(ctx, s.list(), &client.ListOptions{Namespace: s.namespace, FieldSelector: s.selected, Raw: &options})
	switch {
	case err == nil:
		s.live.setWatchNote(s.kind, "")
		return convertEvents(w, s.convert), nil
	case begins && !isRetriedByReflector(err):
		// The reflector lists the objects now; the result of that counts.
	case ctx.Err() == nil && !isExpired(err):
		s.live.setWatchNote(s.kind, s.watchNote(err))
	}
	if begins && isRetriedByReflector(err) {
		s.live.setAnswered(s.kind)
	}
	return nil, err
}

// isRetriedByReflector reports whether the reflector repeats a watch after this error, instead
// of listing the objects.
func isRetriedByReflector(err error) bool {
	return utilnet.IsConnectionRefused(err) || apierrors.IsTooManyRequests(err)
}

// isExpired reports whether the resource version is too old to watch from, which is no fault.
func isExpired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// convert reduces the object of an event. The reflector reads the resource version and the
// annotations of bookmarks.
func (s *source) convert(e watch.Event) watch.Event {
	if e.Type == watch.Error {
		if err := apierrors.FromObject(e.Object); !isExpired(err) {
			s.live.setWatchNote(s.kind, s.watchNote(err))
		}
		return e
	}
	bookmark, ok := e.Object.(client.Object)
	if e.Type == watch.Bookmark && ok {
		e.Object = &entry{ObjectMeta: metav1.ObjectMeta{ResourceVersion: bookmark.GetResourceVersion(), Annotations: bookmark.GetAnnotations()}}
		return e
	}
	e.Object = s.entryOf(e.Object)
	return e
}

// entryOf reduces an object to what the page shows of it.
func (s *source) entryOf(object runtime.Object) runtime.Object {
	typed, ok := object.(client.Object)
	if !ok {
		return object // the reflector reports it
	}
	return &entry{
		ObjectMeta: metav1.ObjectMeta{Namespace: typed.GetNamespace(), Name: typed.GetName(), ResourceVersion: typed.GetResourceVersion()},
		record:     s.record(typed),
	}
}

// Add, Update, Delete, Replace and Resync make a source the store of its reflector.
func (s *source) Add(object any) error {
	e := object.(*entry)
	s.live.set(s.kind, keyOf(e), e.record)
	return nil
}

// Update is as Add.
func (s *source) Update(object any) error { return s.Add(object) }

// Delete removes the record of an object.
func (s *source) Delete(object any) error {
	s.live.set(s.kind, keyOf(object.(*entry)), nil)
	return nil
}

// Replace replaces all records of the kind.
func (s *source) Replace(objects []any, _ string) error {
	records := map[string]any{}
	for _, object := range objects {
		if e := object.(*entry); e.record != nil {
			records[keyOf(e)] = e.record
		}
	}
	s.live.replace(s.kind, records)
	note := ""
	if s.namespace != "" {
		note = s.namespaceNote(s.namespace)
	}
	s.live.setListNote(s.kind, note)
	s.live.setAnswered(s.kind)
	return nil
}

// Resync does nothing: no resync is asked for.
func (s *source) Resync() error { return nil }

// convertedWatch is a watch with converted events. Unlike watch.Filter, it ends when it is
// stopped while nobody receives.
type convertedWatch struct {
	events  chan watch.Event
	stopped chan struct{}
	stop    func()
}

// convertEvents returns a watch that converts the events of another one, which it stops.
func convertEvents(from watch.Interface, convert func(watch.Event) watch.Event) watch.Interface {
	w := &convertedWatch{events: make(chan watch.Event), stopped: make(chan struct{})}
	w.stop = sync.OnceFunc(func() {
		close(w.stopped)
		from.Stop()
	})
	go w.run(from, convert)
	return w
}

func (w *convertedWatch) run(from watch.Interface, convert func(watch.Event) watch.Event) {
	defer close(w.events)
	for {
		select {
		case <-w.stopped:
			return
		case e, more := <-from.ResultChan():
			if !more {
				return
			}
			select {
			case w.events <- convert(e):
			case <-w.stopped:
				return
			}
		}
	}
}

// ResultChan returns the events. It is closed when the watch ends.
func (w *convertedWatch) ResultChan() <-chan watch.Event { return w.events }

// Stop ends the watch.
func (w *convertedWatch) Stop() { w.stop() }
