package scopedinformers

import (
	"fmt"
	"maps"

	"k8s.io/client-go/tools/cache"
)

// AddIndexers adds indexes that the Factory's Close removes. Two factories may use the
// same name, but not the name of an index of the shared store.
func (i *scopedInformer) AddIndexers(added cache.Indexers) error {
	shared := i.SharedIndexInformer.GetIndexer()
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return ErrClosed
	}
	for name := range added {
		// IndexKeys takes the store's lock; GetIndexers does not.
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

// GetStore returns the store, read-only.
func (i *scopedInformer) GetStore() cache.Store { return i.GetIndexer() }

// GetIndexer returns the store, read-only, with the shared indexes and those of the
// Factory.
func (i *scopedInformer) GetIndexer() cache.Indexer {
	return readOnlyIndexer{i.SharedIndexInformer.GetIndexer(), i}
}

// readOnlyIndexer is a shared store with the indexes of one Factory. Writes return
// errReadOnly.
type readOnlyIndexer struct {
	cache.Indexer
	informer *scopedInformer
}

// indexReader has the methods of cache.Indexer that read one index.
type indexReader interface {
	Index(name string, obj any) ([]any, error)
	IndexKeys(name, value string) ([]string, error)
	ByIndex(name, value string) ([]any, error)
	ListIndexFuncValues(name string) []string
}

// readerFor returns the Factory's indexes where they have one of that name, else the
// shared store.
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
