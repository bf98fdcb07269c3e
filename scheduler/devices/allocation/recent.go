package allocation

import "sync"

// recentCache keeps values by name. Once limit names are in it, those that are not asked for
// again are forgotten by the time that as many others were. It is safe for concurrent use.
type recentCache[V any] struct {
	limit int

	mu                sync.Mutex
	recent, forgotten map[string]V
}

// get returns the value of a name, which create makes if there is none.
func (c *recentCache[V]) get(name string, create func() V) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, found := c.recent[name]; found {
		return known
	}
	value, found := c.forgotten[name]
	if !found {
		value = create()
	}
	if c.recent == nil || len(c.recent) >= c.limit {
		c.recent, c.forgotten = map[string]V{}, c.recent
	}
	c.recent[name] = value
	return value
}
