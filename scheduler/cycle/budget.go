package cycle

import (
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berthdev/berth/scheduler/framework"
)

// DefaultBudget is the default memory for the equivalence caches of a process,
// in bytes.
const DefaultBudget = 512 << 20

// Budget bounds the memory of all equivalence caches of a process. It evicts
// the least recently used pod class of any cache, so that a profile that is
// used more keeps more classes. Only the scheduling loop may use it, except for
// NewEquivalenceCache, EquivalenceCache.Close, Bytes, Limit and Metrics, which
// are safe for concurrent use.
type Budget struct {
	limit int
	bytes atomic.Int64
	// newest is the most recently used class, and oldest the least recently
	// used.
	newest, oldest *podClass

	// pending says that closed is not empty.
	pending atomic.Bool
	mu      sync.Mutex // guards closed
	closed  []*EquivalenceCache
}

// NewBudget returns a Budget of limit bytes.
func NewBudget(limit int) *Budget { return &Budget{limit: limit} }

// NewEquivalenceCache returns a cache for f within this Budget; a nil Budget
// creates one for the cache alone. See the function NewEquivalenceCache.
func (b *Budget) NewEquivalenceCache(f *framework.Framework) *EquivalenceCache {
	m := NewEquivalenceCache(f)
	if m != nil && b != nil {
		m.budget = b
	}
	return m
}

// Bytes is about how much memory the caches use. It is safe for concurrent use.
func (b *Budget) Bytes() int { return int(b.bytes.Load()) }

var (
	cacheBytes = prometheus.NewDesc("berth_equivalence_cache_bytes",
		"[ALPHA] Approximate memory of the equivalence caches of all profiles.", []string{}, nil)
	cacheLimit = prometheus.NewDesc("berth_equivalence_cache_limit_bytes",
		"[ALPHA] Maximum memory of the equivalence caches of all profiles.", []string{}, nil)
)

// Metrics returns the collector of the Budget.
func (b *Budget) Metrics() []prometheus.Collector { return []prometheus.Collector{budgetCollector{b}} }

// budgetCollector reads a Budget when it is scraped.
type budgetCollector struct{ *Budget }

// Describe implements prometheus.Collector.
func (c budgetCollector) Describe(descs chan<- *prometheus.Desc) {
	descs <- cacheBytes
	descs <- cacheLimit
}

// Collect implements prometheus.Collector.
func (c budgetCollector) Collect(values chan<- prometheus.Metric) {
	values <- prometheus.MustNewConstMetric(cacheBytes, prometheus.GaugeValue, float64(c.Bytes()))
	values <- prometheus.MustNewConstMetric(cacheLimit, prometheus.GaugeValue, float64(c.limit))
}

// Close releases the memory of m at the next EvictClosed of its Budget. m must not be
// used afterwards; it may be nil.
func (m *EquivalenceCache) Close() {
	if m == nil {
		return
	}
	b := m.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = append(b.closed, m)
	b.pending.Store(true)
}

// EvictClosed evicts all classes of closed caches and forgets the caches. The scheduling
// loop calls it at each lookup in a cache. Where it makes no lookups, somebody else has to,
// or the Frameworks of closed caches stay in memory.
func (b *Budget) EvictClosed() {
	if !b.pending.Load() {
		return
	}
	b.mu.Lock()
	closed := b.closed
	b.closed = nil
	b.pending.Store(false)
	b.mu.Unlock()
	for _, m := range closed {
		for _, c := range m.classes {
			b.evict(c)
		}
		m.last, m.lastPod, m.closest, m.first = nil, nil, cachedClosestNodes{}, firstEntries{}
	}
}

// account adds bytes to the memory of m and evicts classes while the limit is
// exceeded. The most recently used class is never evicted.
func (b *Budget) account(m *EquivalenceCache, bytes int) {
	b.add(m, bytes)
	for b.Bytes() > b.limit && b.oldest != b.newest {
		increment(b.oldest.cache.framework, evictions)
		b.evict(b.oldest)
	}
}

func (b *Budget) add(m *EquivalenceCache, bytes int) {
	m.bytes += bytes
	b.bytes.Add(int64(bytes))
}

// evict removes a class, and its verdict table with the last of the table's
// classes.
func (b *Budget) evict(c *podClass) {
	m := c.cache
	if m.last == c {
		m.last, m.lastPod = nil, nil
	}
	b.unlink(c)
	delete(m.classes, c.key)
	if m.alike[c.alikeKey] == c {
		delete(m.alike, c.alikeKey)
	}
	b.add(m, -c.bytes())
	if c.verdictTable.classes--; c.verdictTable.classes == 0 {
		delete(m.tables, c.verdictTable.key)
		b.add(m, -c.verdictTable.bytes)
	}
}

// touch makes c the most recently used class.
func (b *Budget) touch(c *podClass) {
	if b.newest != c {
		b.unlink(c)
		b.pushNewest(c)
	}
}

func (b *Budget) pushNewest(c *podClass) {
	c.older, c.newer = b.newest, nil
	if b.newest != nil {
		b.newest.newer = c
	} else {
		b.oldest = c
	}
	b.newest = c
}

func (b *Budget) unlink(c *podClass) {
	if c.older != nil {
		c.older.newer = c.newer
	} else {
		b.oldest = c.newer
	}
	if c.newer != nil {
		c.newer.older = c.older
	} else {
		b.newest = c.older
	}
	c.older, c.newer = nil, nil
}
