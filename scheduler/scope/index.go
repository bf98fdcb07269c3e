package scope

import (
	"fmt"
	"maps"

	"k8s.io/client-go/tools/cache"
)

// AddIndexers adds indexes that end with the scope. Two generations may use the
// same name, but not the name of an index that the shared store has.
func (i *informer) AddIndexers(added cache.Indexers) error {
	shared := i.SharedIndexInformer.GetIndexer()
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return ErrOver
	}
	for name := range added {
		// Only reads by name take the store's lock; GetIndexers does not.
		if _, err := shared.IndexKeys(name, ""); err == nil || i.own.has(name) {
			return fmt.Errorf("indexer conflict: %q is there already", name)
		}
	}
	if i.own != nil {
		i.own.add(added)
		return nil
	}
	own := newIndex(shared, added, i.log)
	if err := i.changes.follow(i.SharedIndexInformer, own); err != nil {
		return err
	}
	i.own = own
	return nil
}

// GetStore returns the store, which only the informer writes.
func (i *informer) GetStore() cache.Store { return i.GetIndexer() }

// GetIndexer returns the store with the indexes of all and of the scope.
func (i *informer) GetIndexer() cache.Indexer { return view{i.SharedIndexInformer.GetIndexer(), i} }

// view is a shared store with the indexes of one scope. It cannot be written.
type view struct {
	cache.Indexer
	informer *informer
}

// indexes are the reads that name an index.
type indexes interface {
	Index(name string, obj any) ([]any, error)
	IndexKeys(name, value string) ([]string, error)
	ByIndex(name, value string) ([]any, error)
	ListIndexFuncValues(name string) []string
}

// by returns what has an index of that name.
func (v view) by(name string) indexes {
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
	all := v.informer.changes.sharedIndexers(v.Indexer)
	v.informer.mu.Lock()
	own := v.informer.own
	v.informer.mu.Unlock()
	if own != nil {
		maps.Copy(all, own.indexers())
	}
	return all
}

func (view) Add(any) error               { return errNotYours }
func (view) Update(any) error            { return errNotYours }
func (view) Delete(any) error            { return errNotYours }
func (view) Replace([]any, string) error { return errNotYours }
func (view) Resync() error               { return errNotYours }
func (view) Bookmark(string)             {}
