package scopedinformers

import (
	"fmt"
	"maps"

	"k8s.io/client-go/tools/cache"
)

// AddIndexers adds indexes that end with the scope. Two generations may use the
// same name, but not the name of an index that the shared store has.
func (i *scopedInformer) AddIndexers(added cache.Indexers) error {
	shared := i.SharedIndexInformer.GetIndexer()
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return ErrClosed
	}
	for name := range added {
		// Only reads by name take the store's lock; GetIndexers does not.
		if _, err := shared.IndexKeys(name, ""); err == nil || i.scopedIndex.has(name) {
			return fmt.Errorf("indexer conflict: %q is there already", name)
		}
	}
	if i.scopedIndex != nil {
		i.scopedIndex.add(added)
		return nil
	}
	own := newScopedIndex(shared, added, i.log)
	if err := i.changes.addFollower(i.SharedIndexInformer, own); err != nil {
		return err
	}
	i.scopedIndex = own
	return nil
}

// GetStore returns the store, which only the informer writes.
func (i *scopedInformer) GetStore() cache.Store { return i.GetIndexer() }

// GetIndexer returns the store with the indexes of all and of the scope.
func (i *scopedInformer) GetIndexer() cache.Indexer {
	return readOnlyIndexer{i.SharedIndexInformer.GetIndexer(), i}
}

// view is a shared store with the indexes of one scope. It cannot be written.
type readOnlyIndexer struct {
	cache.Indexer
	informer *scopedInformer
}

// indexes are the reads that name an index.
type indexReader interface {
	Index(name string, obj any) ([]any, error)
	IndexKeys(name, value string) ([]string, error)
	ByIndex(name, value string) ([]any, error)
	ListIndexFuncValues(name string) []string
}

// by returns what has an index of that name.
func (v readOnlyIndexer) readerFor(name string) indexReader {
	v.informer.mu.Lock()
	own := v.informer.scopedIndex
	v.informer.mu.Unlock()
	if own.has(name) {
		return own
	}
	return v.Indexer
}

func (v readOnlyIndexer) Index(name string, obj any) ([]any, error) {
	return v.readerFor(name).Index(name, obj)
}

func (v readOnlyIndexer) IndexKeys(name, value string) ([]string, error) {
	return v.readerFor(name).IndexKeys(name, value)
}

func (v readOnlyIndexer) ByIndex(name, value string) ([]any, error) {
	return v.readerFor(name).ByIndex(name, value)
}

func (v readOnlyIndexer) ListIndexFuncValues(name string) []string {
	return v.readerFor(name).ListIndexFuncValues(name)
}

func (v readOnlyIndexer) AddIndexers(added cache.Indexers) error {
	return v.informer.AddIndexers(added)
}

func (v readOnlyIndexer) GetIndexers() cache.Indexers {
	all := v.informer.changes.sharedIndexers(v.Indexer)
	v.informer.mu.Lock()
	own := v.informer.scopedIndex
	v.informer.mu.Unlock()
	if own != nil {
		maps.Copy(all, own.indexers())
	}
	return all
}

func (readOnlyIndexer) Add(any) error               { return errReadOnly }
func (readOnlyIndexer) Update(any) error            { return errReadOnly }
func (readOnlyIndexer) Delete(any) error            { return errReadOnly }
func (readOnlyIndexer) Replace([]any, string) error { return errReadOnly }
func (readOnlyIndexer) Resync() error               { return errReadOnly }
func (readOnlyIndexer) Bookmark(string)             {}
