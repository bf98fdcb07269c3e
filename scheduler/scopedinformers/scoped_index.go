package scopedinformers

import (
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/cache"

	"github.com/berthdev/berth/scheduler/fault"
)

// maxChanges bounds the changes that an index remembers between two reads. After
// more of them the next read builds the index anew.
const maxChanges = 4096

// index is the indexes of one scope over a shared store. A read first takes in
// what changed in the store since the read before, so that no read is behind an
// event which a handler has been given: the store is written before its handlers
// are called.
//
// A read may be ahead of the events, as every read of an informer's store may be.
// That is harmless. A pod that is judged by a change whose event is still to come
// is judged by the truth; the event then drops what was remembered of the older
// state, and wakes the pods that it concerns. And a pod that is refused because
// of an object was judged while the store held the object, so that the event of
// its deletion comes later: during the attempt, for which the queue keeps it, or
// after it.
//
// A relist that finds objects gone tells nothing of them: client-go replaces the
// whole content of the store, and calls index functions for the new content only.
// So entries may be of objects that the store has no more. A read leaves them out:
// it asks the store for each object that it found.
//
// The functions of a plugin are called by the plugin's own reads, and not while
// the shared store is locked. An index is safe for concurrent use.
type scopedIndex struct {
	store cache.Indexer
	log   logr.Logger

	// behind says that the store changed since the last read.
	stale atomic.Bool
	// pending guards changes and rebuild. It may be taken while the store is
	// locked, so that nothing is called under it.
	changesMu sync.Mutex
	// changes are the keys of what changed.
	changes map[string]struct{}
	// rebuild says that everything may have changed.
	rebuild bool

	mu    sync.RWMutex
	funcs cache.Indexers
	// untilBuilt is how many changes are taken in before the index is built anew.
	changesUntilRebuild int
	// entries are by key.
	entries map[string]entry
	// found are the objects by the index, the value and the key.
	objectsByValue map[string]map[string]map[string]any
}

// entry is an object and its values, by the index.
type entry struct {
	object any
	values map[string][]string
}

func newScopedIndex(store cache.Indexer, funcs cache.Indexers, log logr.Logger) *scopedIndex {
	x := &scopedIndex{store: store, log: log, funcs: cache.Indexers{}}
	x.add(funcs)
	return x
}

// add adds index functions under names that are free.
func (x *scopedIndex) add(funcs cache.Indexers) {
	x.mu.Lock()
	defer x.mu.Unlock()
	maps.Copy(x.funcs, funcs)
	x.recordRebuild()
}

// has says whether there is an index of that name; nil has none.
func (x *scopedIndex) has(name string) bool {
	if x == nil {
		return false
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	_, ok := x.funcs[name]
	return ok
}

// indexers returns a copy of the index functions.
func (x *scopedIndex) indexers() cache.Indexers {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return maps.Clone(x.funcs)
}

// changed notes that the store writes the object with this key. It is called
// while the store is locked.
func (x *scopedIndex) recordChange(key string) {
	x.changesMu.Lock()
	defer x.changesMu.Unlock()
	x.stale.Store(true)
	switch {
	case x.rebuild:
	case len(x.changes) == maxChanges:
		x.changes, x.rebuild = nil, true
	default:
		if x.changes == nil {
			x.changes = map[string]struct{}{}
		}
		x.changes[key] = struct{}{}
	}
}

// changedAll notes that everything may have changed.
func (x *scopedIndex) recordRebuild() {
	x.changesMu.Lock()
	defer x.changesMu.Unlock()
	x.changes, x.rebuild = nil, true
	x.stale.Store(true)
}

// read calls look with the index as the store is now.
func (x *scopedIndex) read(look func()) {
	if x.readUnchanged(look) {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if fault.ScopedIndexBehind {
		defer x.refresh()
	} else {
		x.refresh()
	}
	look()
}

// readUnchanged calls look unless the store changed. It reports whether it did.
func (x *scopedIndex) readUnchanged(look func()) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.stale.Load() {
		return false
	}
	look()
	return true
}

// refresh takes in what changed. A key is noted while the store is locked for its
// write, so that reading the store here waits for the write. Called with mu.
func (x *scopedIndex) refresh() {
	x.changesMu.Lock()
	changes, rebuild := x.changes, x.rebuild
	x.changes, x.rebuild = nil, false
	x.stale.Store(false)
	x.changesMu.Unlock()
	// Building anew drops the entries that relists left behind. Doing it after as
	// many changes as there were objects keeps their number, and the cost of a
	// change, in bounds.
	x.changesUntilRebuild -= len(changes)
	if rebuild || x.changesUntilRebuild < 0 {
		x.entries, x.objectsByValue = map[string]entry{}, map[string]map[string]map[string]any{}
		for _, obj := range x.store.List() {
			if key, err := cache.MetaNamespaceKeyFunc(obj); err == nil {
				x.insert(key, obj)
			}
		}
		x.changesUntilRebuild = max(len(x.entries), maxChanges)
		return
	}
	for key := range changes {
		x.remove(key)
		if obj, exists, err := x.store.GetByKey(key); err == nil && exists {
			x.insert(key, obj)
		}
	}
}

func (x *scopedIndex) insert(key string, obj any) {
	e := entry{obj, map[string][]string{}}
	for name, f := range x.funcs {
		values, err := callIndexFunc(f, obj)
		if err != nil {
			x.log.Error(err, "A plugin's index function failed; its index lacks the object", "index", name, "object", key)
			continue
		}
		e.values[name] = values
		byValue := x.objectsByValue[name]
		if byValue == nil {
			byValue = map[string]map[string]any{}
			x.objectsByValue[name] = byValue
		}
		for _, value := range values {
			if byValue[value] == nil {
				byValue[value] = map[string]any{}
			}
			byValue[value][key] = obj
		}
	}
	x.entries[key] = e
}

func (x *scopedIndex) remove(key string) {
	for name, values := range x.entries[key].values {
		byValue := x.objectsByValue[name]
		for _, value := range values {
			delete(byValue[value], key)
			if len(byValue[value]) == 0 {
				delete(byValue, value)
			}
		}
	}
	delete(x.entries, key)
}

// call calls an index function. The error may be that it panicked.
func callIndexFunc(f cache.IndexFunc, obj any) (values []string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panicked: %v\n%s", r, debug.Stack())
		}
	}()
	return f(obj)
}

// stored says whether the store has an object with this key, see index.
func (x *scopedIndex) stored(key string) bool {
	_, exists, err := x.store.GetByKey(key)
	return err == nil && exists || fault.RelistsLeaveGhosts
}

// objects returns the objects that have one of the values in the index of that
// name. Called with mu.
func (x *scopedIndex) objects(name string, values ...string) []any {
	var objects []any
	var seen map[string]struct{}
	if len(values) > 1 {
		seen = map[string]struct{}{}
	}
	for _, value := range values {
		for key, obj := range x.objectsByValue[name][value] {
			if _, again := seen[key]; again || !x.stored(key) {
				continue
			}
			if seen != nil {
				seen[key] = struct{}{}
			}
			objects = append(objects, obj)
		}
	}
	return objects
}

// ByIndex returns the objects that have the value in the index of that name.
func (x *scopedIndex) ByIndex(name, value string) (objects []any, err error) {
	x.read(func() {
		if err = x.checkName(name); err == nil {
			objects = x.objects(name, value)
		}
	})
	return objects, err
}

// IndexKeys returns the keys of what ByIndex returns, sorted.
func (x *scopedIndex) IndexKeys(name, value string) (keys []string, err error) {
	x.read(func() {
		if err = x.checkName(name); err == nil {
			keys = slices.DeleteFunc(slices.Sorted(maps.Keys(x.objectsByValue[name][value])), func(key string) bool { return !x.stored(key) })
		}
	})
	return keys, err
}

// Index returns the objects that have a value of obj in the index of that name.
func (x *scopedIndex) Index(name string, obj any) (objects []any, err error) {
	x.mu.RLock()
	f := x.funcs[name]
	x.mu.RUnlock()
	if f == nil {
		return nil, errNoIndex(name)
	}
	values, err := f(obj)
	if err != nil {
		return nil, err
	}
	x.read(func() { objects = x.objects(name, values...) })
	return objects, nil
}

// ListIndexFuncValues returns the values that objects have in the index of that
// name.
func (x *scopedIndex) ListIndexFuncValues(name string) (values []string) {
	x.read(func() {
		for value, objects := range x.objectsByValue[name] {
			for key := range objects {
				if x.stored(key) {
					values = append(values, value)
					break
				}
			}
		}
	})
	return values
}

// known is an error where there is no index of that name. Called with mu.
func (x *scopedIndex) checkName(name string) error {
	if _, ok := x.funcs[name]; !ok {
		return errNoIndex(name)
	}
	return nil
}

func errNoIndex(name string) error { return fmt.Errorf("index with name %s does not exist", name) }
