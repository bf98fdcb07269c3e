package scope

import (
	"fmt"
	"maps"

	"k8s.io/client-go/tools/cache"
)

// AddIndexers keeps indexes that go with the scope: in an indexer of its own,
// which a handler feeds. Two generations may use the same name.
func (i *informer) AddIndexers(added cache.Indexers) error {
	shared := i.SharedIndexInformer.GetIndexer().GetIndexers()
	i.mu.Lock()
	own := i.own
	i.mu.Unlock()
	for name := range added {
		if _, there := shared[name]; there || own.has(name) {
			return fmt.Errorf("indexer conflict: %q is there already", name)
		}
	}
	if own != nil {
		return own.AddIndexers(added)
	}
	fresh := &index{cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, maps.Clone(added))}
	if _, err := i.AddEventHandler(fresh); err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.own = fresh
	return nil
}

// GetStore returns the store, which only the informer writes.
func (i *informer) GetStore() cache.Store { return i.GetIndexer() }

// GetIndexer returns the store with the indexes of all and of the scope.
func (i *informer) GetIndexer() cache.Indexer { return view{i.SharedIndexInformer.GetIndexer(), i} }

// index is the indexes of one scope. The store behind it holds the same
// objects as the informer's.
type index struct{ cache.Indexer }

func (x *index) has(name string) bool {
	if x == nil {
		return false
	}
	_, ok := x.GetIndexers()[name]
	return ok
}

// The errors below are of objects without a name, which no server sends.

func (x *index) OnAdd(obj any, _ bool)  { _ = x.Add(obj) }
func (x *index) OnUpdate(_, newObj any) { _ = x.Update(newObj) }
func (x *index) OnDelete(obj any)       { _ = x.Delete(obj) }

// view is a shared store with the indexes of one scope. It cannot be written.
type view struct {
	cache.Indexer
	informer *informer
}

// by returns the indexer that has an index of that name.
func (v view) by(name string) cache.Indexer {
	v.informer.mu.Lock()
	own := v.informer.own
	v.informer.mu.Unlock()
	if own.has(name) {
		return own
	}
	return v.Indexer
}

func (v view) Index(name string, obj any) ([]any, error) { return v.by(name).Index(name, obj) }

func (v view) IndexKeys(name, value string) ([]string, error) {
	return v.by(name).IndexKeys(name, value)
}

func (v view) ByIndex(name, value string) ([]any, error) { return v.by(name).ByIndex(name, value) }

func (v view) ListIndexFuncValues(name string) []string { return v.by(name).ListIndexFuncValues(name) }

func (v view) AddIndexers(added cache.Indexers) error { return v.informer.AddIndexers(added) }

func (v view) GetIndexers() cache.Indexers {
	all := maps.Clone(v.Indexer.GetIndexers())
	v.informer.mu.Lock()
	own := v.informer.own
	v.informer.mu.Unlock()
	if own != nil {
		maps.Copy(all, own.GetIndexers())
	}
	return all
}

func (view) Add(any) error               { return errNotYours }
func (view) Update(any) error            { return errNotYours }
func (view) Delete(any) error            { return errNotYours }
func (view) Replace([]any, string) error { return errNotYours }
func (view) Resync() error               { return errNotYours }
func (view) Bookmark(string)             {}
