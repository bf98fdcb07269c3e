package scopedinformers

import (
	"maps"
	"sync"

	"k8s.io/client-go/tools/cache"
)

// changeTrackerIndex is the name of the index that a changeTracker adds to a shared
// store. The index holds no values.
const changeTrackerIndex = "berth.dev/changes"

// changeTracker tells the scoped indexes of one shared store which objects change. A
// store calls its index functions inside each write, under its lock, and an informer
// calls its handlers after the write. So a scoped index knows of a change before any
// handler of Berth or of a plugin is called.
//
// client-go cannot remove an index from a store. So a changeTracker adds one index to
// the store, once, which stays, and scoped indexes register with the changeTracker.
//
// The zero value is ready for use. It is safe for concurrent use.
type changeTracker struct {
	// indexersMu is held while the index is added and while the store's indexes are
	// listed, because the store locks neither.
	indexersMu sync.Mutex
	added      bool

	mu        sync.Mutex
	followers map[*scopedIndex]struct{}
}

// addFollower makes x learn of changes in the store of an informer. All calls pass the
// same informer. The error says that the informer accepts no more indexes.
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

// removeFollower undoes addFollower.
func (c *changeTracker) removeFollower(x *scopedIndex) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.followers, x)
}

// recordChange is the store's index function. The store calls it under its lock, with
// each object that it writes, replaces or deletes.
func (c *changeTracker) recordChange(obj any) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.followers) == 0 {
		return nil, nil
	}
	key, err := cache.MetaNamespaceKeyFunc(obj)
	if err != nil {
		return nil, nil // an object without a name, which the API server does not send
	}
	for x := range c.followers {
		x.recordChange(key)
	}
	return nil, nil
}

// sharedIndexers returns a copy of the indexers of the shared store, without the
// changeTracker's own.
func (c *changeTracker) sharedIndexers(store cache.Indexer) cache.Indexers {
	c.indexersMu.Lock()
	defer c.indexersMu.Unlock()
	all := maps.Clone(store.GetIndexers())
	delete(all, changeTrackerIndex)
	return all
}
