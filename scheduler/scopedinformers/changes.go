package scopedinformers

import (
	"maps"
	"sync"

	"k8s.io/client-go/tools/cache"
)

// changesIndex is the name of the index that tells changes of a store. It holds
// no values.
const changeTrackerIndex = "berth.dev/changes"

// changes tells scoped indexes which objects of one shared store change. A store
// calls the functions of its indexes in the write itself, under its lock, and an
// informer hands an event to its handlers after the write. So a scoped index
// knows of each change before any handler does: those of Berth, and those of
// plugins.
//
// client-go cannot remove an index from a store. So changes adds one index to the
// store, once, and it stays; the scoped indexes behind it come and go.
//
// The zero value is ready for use. It is safe for concurrent use.
type changeTracker struct {
	// adding is held while the index is added, and while the store's indexes are
	// listed: the store does neither under its lock.
	indexersMu sync.Mutex
	added      bool

	mu        sync.Mutex
	followers map[*scopedIndex]struct{}
}

// follow has x told of the changes in the store of an informer, which is the same
// in all calls. The error is that the informer takes no index any more.
func (c *changeTracker) addFollower(of cache.SharedIndexInformer, x *scopedIndex) error {
	if err := c.addIndexer(of); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.followers == nil {
		c.followers = map[*scopedIndex]struct{}{}
	}
	c.followers[x] = struct{}{}
	return nil
}

func (c *changeTracker) addIndexer(to cache.SharedIndexInformer) error {
	c.indexersMu.Lock()
	defer c.indexersMu.Unlock()
	if c.added {
		return nil
	}
	if err := to.AddIndexers(cache.Indexers{changeTrackerIndex: c.recordChange}); err != nil {
		return err
	}
	c.added = true
	return nil
}

// unfollow has x told no more.
func (c *changeTracker) removeFollower(x *scopedIndex) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.followers, x)
}

// changed is the store's index function: the store calls it with the object that
// it writes, and with the one that it replaces or deletes.
func (c *changeTracker) recordChange(obj any) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.followers) == 0 {
		return nil, nil
	}
	key, err := cache.MetaNamespaceKeyFunc(obj)
	if err != nil {
		return nil, nil // an object without a name, which no server sends
	}
	for x := range c.followers {
		x.recordChange(key)
	}
	return nil, nil
}

// sharedIndexers returns a copy of the indexes that all readers of a store share.
func (c *changeTracker) sharedIndexers(store cache.Indexer) cache.Indexers {
	c.indexersMu.Lock()
	defer c.indexersMu.Unlock()
	all := maps.Clone(store.GetIndexers())
	delete(all, changeTrackerIndex)
	return all
}
