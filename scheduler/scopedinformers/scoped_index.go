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
)

// maxChanges bounds the changes that an index remembers between two reads. Above it the
// next read rebuilds the index.
const maxChanges = 4096

// scopedIndex holds the indexes of one Factory over a shared store. A read first applies
// the changes of the store since the last read. The store is written before its handlers
// are called, so no read is behind an event that a handler has received.
//
// A read may be ahead of the events, like every read of an informer's store. That is
// harmless. If a verdict already reflects a change whose event is still to come, it is
// right; the event then drops cached verdicts of the older state and requeues the pods
// that it concerns. If a plugin rejects a pod because of an object, the store held that
// object at that time, so the event of its deletion comes later: during the attempt, in
// which case the queue keeps it as an in-flight event, or after the attempt.
//
// A relist reports no deletions: client-go replaces the content of the store, and calls
// the index functions for the new content only. So the index may hold entries for deleted
// objects. A read skips them, because it looks each key up in the store.
//
// The reads of a plugin call its index functions; the shared store never calls them under
// its lock. A scopedIndex is safe for concurrent use.
type scopedIndex struct {
	store cache.Indexer
	log   logr.Logger

	// stale says that the store changed since the last read.
	stale atomic.Bool
	// changesMu guards changes and rebuild. The store's lock may be held when it is
	// taken, so nothing is called under it.
	changesMu sync.Mutex
	// changes are the keys of changed objects.
	changes map[string]struct{}
	// rebuild says that the next read has to rebuild the index.
	rebuild bool

	mu    sync.RWMutex
	funcs cache.Indexers
	// changesUntilRebuild is how many more changes are applied before a rebuild.
	changesUntilRebuild int
	// entries are the indexed objects by key.
	entries map[string]entry
	// objectsByValue holds objects by index name, value and key.
	objectsByValue map[string]map[string]map[string]any
}

// entry is an object and its values by index name.
type entry struct {
	object any
	values map[string][]string
}

func newScopedIndex(store cache.Indexer, funcs cache.Indexers, log logr.Logger) *scopedIndex {
	x := &scopedIndex{store: store, log: log, funcs: cache.Indexers{}}
	x.add(funcs)
	return x
}

// add adds index functions. The caller has checked that their names are free.
func (x *scopedIndex) add(funcs cache.Indexers) {
	x.mu.Lock()
	defer x.mu.Unlock()
	maps.Copy(x.funcs, funcs)
	x.recordRebuild()
}

// has reports whether there is an index called name. x may be nil.
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

// recordChange records that the store writes the object with this key. The store's lock
// is held.
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

// recordRebuild records that the next read has to rebuild the index.
func (x *scopedIndex) recordRebuild() {
	x.changesMu.Lock()
	defer x.changesMu.Unlock()
	x.changes, x.rebuild = nil, true
	x.stale.Store(true)
}

// read calls look with the index up to date, under mu.
func (x *scopedIndex) read(look func()) {
	if x.readUnchanged(look) {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.refresh()
	look()
}

// readUnchanged calls look if the store has not changed since the last read, and reports
// whether it did.
func (x *scopedIndex) readUnchanged(look func()) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.stale.Load() {
		return false
	}
	look()
	return true
}

// refresh applies the recorded changes. A key is recorded under the store's lock before
// its write, so reading the store here waits for that write. The caller holds mu.
func (x *scopedIndex) refresh() {
	x.changesMu.Lock()
	changes, rebuild := x.changes, x.rebuild
	x.changes, x.rebuild = nil, false
	x.stale.Store(false)
	x.changesMu.Unlock()
	// A rebuild drops the entries of objects that relists removed. One rebuild after as
	// many changes as there are objects bounds both their number and the cost per change.
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

// callIndexFunc calls an index function and returns a panic as an error.
func callIndexFunc(f cache.IndexFunc, obj any) (values []string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panicked: %v\n%s", r, debug.Stack())
		}
	}()
	return f(obj)
}

// stored reports whether the store still holds an object with this key, which a relist
// may have removed; see scopedIndex.
func (x *scopedIndex) stored(key string) bool {
	_, exists, err := x.store.GetByKey(key)
	return err == nil && exists
}

// objects returns the objects with one of the values in the index called name. The caller
// holds mu.
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

// ByIndex returns the objects with the value in the index called name.
func (x *scopedIndex) ByIndex(name, value string) (objects []any, err error) {
	x.read(func() {
		if err = x.checkName(name); err == nil {
			objects = x.objects(name, value)
		}
	})
	return objects, err
}

// IndexKeys returns the keys of the objects of ByIndex, sorted.
func (x *scopedIndex) IndexKeys(name, value string) (keys []string, err error) {
	x.read(func() {
		if err = x.checkName(name); err == nil {
			keys = slices.DeleteFunc(slices.Sorted(maps.Keys(x.objectsByValue[name][value])), func(key string) bool { return !x.stored(key) })
		}
	})
	return keys, err
}

// Index returns the objects that share a value with obj in the index called name.
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

// ListIndexFuncValues returns the values of all objects in the index called name.
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

// checkName returns an error if there is no index called name. The caller holds mu.
func (x *scopedIndex) checkName(name string) error {
	if _, ok := x.funcs[name]; !ok {
		return errNoIndex(name)
	}
	return nil
}

func errNoIndex(name string) error { return fmt.Errorf("index with name %s does not exist", name) }
