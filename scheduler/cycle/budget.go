package cycle

import (
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// DefaultBudget is how many bytes the equivalence caches of a process may take
// where nothing else is said.
const DefaultBudget = 512 << 20

// Budget bounds what the Memos of one process take together. The class of pods
// that was used least recently gives way, whichever Memo it is in, so that a
// profile that is used more keeps more. It belongs to the loop, as its Memos do,
// but for NewMemo, Memo.Close and Metrics, which any goroutine may call.
type Budget struct {
	limit int
	bytes atomic.Int64
	// newest is the class that was used last.
	newest, oldest *podClass

	// pending says that closed is not empty.
	pending atomic.Bool
	mu      sync.Mutex // guards closed
	closed  []*EquivalenceCache
}

// NewBudget returns a Budget of limit bytes.
func NewBudget(limit int) *Budget { return &Budget{limit: limit} }

// NewMemo returns a Memo for f that shares b; a nil Budget makes one for it alone.
// See the function NewMemo.
func (b *Budget) NewEquivalenceCache(f *framework.Framework) *EquivalenceCache {
	m := NewEquivalenceCache(f)
	if m != nil && b != nil && !fault.BudgetPerProfile {
		m.budget = b
	}
	return m
}

// Bytes is about how much the Memos take together. Any goroutine may ask.
func (b *Budget) Bytes() int { return int(b.bytes.Load()) }

// Limit is how much they may take.
func (b *Budget) Limit() int { return b.limit }

var (
	cacheBytes = prometheus.NewDesc("berth_equivalence_cache_bytes",
		"[ALPHA] About how many bytes the verdicts take that are remembered for all profiles together.", []string{}, nil)
	cacheLimit = prometheus.NewDesc("berth_equivalence_cache_limit_bytes",
		"[ALPHA] How many bytes the verdicts may take that are remembered for all profiles together.", []string{}, nil)
)

// Metrics returns the collector of the Budget's use.
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

// Close gives back what m takes when the loop looks up the next class. Nothing may
// look a pod up in m afterwards. A nil Memo takes nothing.
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

// sweep forgets what closed Memos take.
func (b *Budget) evictClosed() {
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
		m.last, m.lastPod, m.closest = nil, nil, cachedClosestNodes{}
	}
}

// account adds to what m takes, and makes room when all take too much. The class
// that was used last stays.
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

// evict drops a class, and its sheet with the last of the sheet's classes.
func (b *Budget) evict(c *podClass) {
	m := c.cache
	if m.last == c && !fault.EvictedClassUsed {
		m.last, m.lastPod = nil, nil
	}
	b.unlink(c)
	delete(m.classes, c.key)
	b.add(m, -c.bytes())
	if c.verdictTable.classes--; c.verdictTable.classes == 0 {
		delete(m.tables, c.verdictTable.key)
		b.add(m, -c.verdictTable.bytes)
	}
}

// touch makes c the class that was used last.
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
