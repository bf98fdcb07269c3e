package cycle

import (
	"math"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/framework/podclass"
)

// EquivalenceCache caches the results of the plugins of one profile by pod
// class and node. A pod class is a set of pods that no plugin can distinguish.
// Only the scheduling loop may use it.
//
// A verdict is valid until the node gets a new version (counts.Columns).
// Results that depend on pods of other nodes are not cached, but computed from
// incremental counts (counts.Counts). The reference implementation is
// Cycle.runReference, which calls every plugin for every node.
type EquivalenceCache struct {
	framework *framework.Framework
	snapshot  *cache.Snapshot
	// keys build the parts of a class's key.
	keys podclass.KeyBuilders
	// requestReaders build a class from one that differs only in its requests; may
	// be nil.
	requestReaders *podclass.RequestReaders
	// classes are the pod classes by key. alike holds, of the classes that differ
	// only in their requests, the one that was built by all plugins last.
	classes, alike map[string]*podClass
	tables         map[string]*verdictTable
	first          firstEntries
	// bytes is about the memory of classes and tables. budget bounds it
	// together with other caches.
	bytes  int
	budget *Budget
	// labelsRead is the snapshot's ListerChanges when SelectedLabels was called
	// last.
	labelsRead uint64
	keyBuffer  []byte // reused for keys
	// last is the class of lastPod, computed when selectors named lastLabels
	// label keys.
	last       *podClass
	lastPod    *v1.Pod
	lastLabels int
	// recheckEvery is the number of attempts of which one is checked by the
	// reference.
	recheckEvery uint64
	stats        Stats
	attempt      attempt
	closest      cachedClosestNodes
}

// Stats count what an equivalence cache has done.
type Stats struct {
	// Cached and Uncached are attempts by the cache and by the reference.
	Cached, Uncached uint64
	// Visited is the number of nodes visited by cached attempts, Evaluated the
	// number of computed verdicts.
	Visited, Evaluated uint64
	// Classes is the number of classes that were created.
	Classes uint64
	// Mismatches is the number of verdicts that a check found wrong.
	Mismatches uint64
}

// Stats returns the counts so far. m may be nil.
func (m *EquivalenceCache) Stats() Stats {
	if m == nil {
		return Stats{}
	}
	return m.stats
}

// Size returns the number of classes, about how many bytes they use, and how
// many bytes all caches of the Budget may use. m may be nil. Only the
// scheduling loop may call it.
func (m *EquivalenceCache) Size() (classes, bytes, limit int) {
	if m == nil {
		return 0, 0, 0
	}
	return len(m.classes), m.bytes, m.budget.limit
}

// SetRecheckEvery sets the number of attempts of which one is checked.
func (m *EquivalenceCache) SetRecheckEvery(every uint64) { m.recheckEvery = every }

const (
	// neverRead is a number of changes that no snapshot reaches.
	neverRead = math.MaxUint64
	// defaultCacheBytes bounds a cache that shares no Budget.
	defaultCacheBytes = 256 << 20
	// recheckEvery is the default of SetRecheckEvery.
	recheckEvery = 64
)

// NewEquivalenceCache returns a cache for f, or nil if nothing can be cached:
// the snapshot has no incremental counts, or the weights are so high that a
// total score does not fit into a verdict.
func NewEquivalenceCache(f *framework.Framework) *EquivalenceCache {
	snapshot, ok := f.Lister.(*cache.Snapshot)
	if !ok || !snapshot.HasIncrementalCounts() || maxTotalScore(f) > maxScore {
		return nil
	}
	m := &EquivalenceCache{
		framework: f, snapshot: snapshot, classes: map[string]*podClass{}, alike: map[string]*podClass{}, tables: map[string]*verdictTable{},
		budget: NewBudget(defaultCacheBytes), recheckEvery: recheckEvery,
	}
	m.keys, m.requestReaders = podclass.NewKeyBuilders(f, snapshot.SelectorLabelKeys()), podclass.NewRequestReaders(f)
	// SelectedLabels is called at the first lookup and not here, because the
	// cache is built outside the scheduling loop, to which the snapshot and its
	// label keys belong.
	m.labelsRead = neverRead
	return m
}

// maxTotalScore is the highest weighted sum of scores that a node can get.
func maxTotalScore(f *framework.Framework) (sum int64) {
	for _, plugin := range f.ScoreChain() {
		sum += plugin.Weight * fwk.MaxScore
	}
	return sum
}

// PodInfo is framework.NewPodInfo, which for pods of one class derives the
// common parts only once. The snapshot must be up to date. m may be nil.
func (m *EquivalenceCache) PodInfo(pod *v1.Pod) (*framework.PodInfo, error) {
	if m == nil {
		return framework.NewPodInfo(pod)
	}
	if class := m.class(pod); class != nil {
		return class.info.ForPodOfSameClass(pod), class.malformed
	}
	return framework.NewPodInfo(pod)
}

// class returns the class of pod, or nil if it belongs to none.
func (m *EquivalenceCache) class(pod *v1.Pod) *podClass {
	if m.labelsRead != m.snapshot.ListerChanges() {
		m.labelsRead = m.snapshot.ListerChanges()
		podclass.AddSelectedLabels(m.framework, m.snapshot.SelectorLabelKeys())
	}
	// Its results depend on all devices, and on DeviceClasses, which come and go
	// between two attempts.
	if m.framework.RequestsDevices(pod) {
		return nil
	}
	// The key depends on the pod, which never changes, and on the label keys of
	// selectors, which are only ever added.
	if labels := len(m.snapshot.SelectorLabelKeys().List()); m.lastPod != pod || m.lastLabels != labels {
		m.lastPod, m.lastLabels, m.last = pod, labels, m.find(pod)
	} else if m.last != nil {
		m.budget.touch(m.last)
	}
	return m.last
}

func (m *EquivalenceCache) find(pod *v1.Pod) *podClass {
	m.budget.EvictClosed()
	if podclass.Uncacheable(pod) {
		return nil
	}
	// The requests come last, so that classes that differ in nothing else have a
	// common prefix. What follows the first part is the key of the verdict table.
	m.keyBuffer = m.keys.Remaining.Append(m.keyBuffer[:0], pod)
	remaining := len(m.keyBuffer)
	m.keyBuffer = m.keys.Cacheable.Append(m.keyBuffer, pod)
	alike := len(m.keyBuffer)
	m.keyBuffer = m.keys.Requests.Append(m.keyBuffer, pod)
	if found, known := m.classes[string(m.keyBuffer)]; known {
		m.budget.touch(found)
		return found
	}
	key := string(m.keyBuffer)
	made := &podClass{cache: m, key: key, alikeKey: key[:alike], verdictTable: m.table(key[remaining:])}
	made.info, made.malformed = framework.NewPodInfo(pod)
	m.classes[made.key] = made
	m.budget.pushNewest(made)
	m.budget.account(m, made.bytes())
	m.stats.Classes++
	increment(m.framework, classesCreated)
	return made
}

// table returns the verdict table for one more class.
func (m *EquivalenceCache) table(key string) *verdictTable {
	s, known := m.tables[key]
	if !known {
		s = &verdictTable{key: key}
		m.tables[key] = s
	}
	s.classes++
	return s
}

// drop removes a class and clears its verdict table, in which a verdict was
// wrong.
func (m *EquivalenceCache) drop(c *podClass) {
	if m.classes[c.key] == c {
		m.budget.evict(c)
	}
	delete(m.alike, c.alikeKey) // what c took over may be wrong
	c.verdictTable.clear()
	m.last, m.lastPod = nil, nil
}
