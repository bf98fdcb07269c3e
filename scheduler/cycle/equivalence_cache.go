package cycle

import (
	"math"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// Memo remembers what the plugins of one profile said to pods of a class about
// nodes: a class is pods that no plugin can tell apart. It belongs to the loop.
//
// A verdict is good while its node's version stands still. What moves with the
// pods on other nodes is not remembered but counted, see framework.Counts. The
// plain twin of all this is Cycle.plain, which asks every plugin about every
// node.
type EquivalenceCache struct {
	framework *framework.Framework
	snapshot  *cache.Snapshot
	// lasting and rest write the two parts of a class's key; the first is its
	// sheet's.
	cacheableKey, remainingKey *framework.ClassKeyBuilder
	// classes are known by key.
	classes map[string]*podClass
	tables  map[string]*verdictTable
	// bytes is about what classes and sheets take, and budget bounds it together
	// with other Memos.
	bytes  int
	budget *Budget
	// moved is the snapshot's, when the labels that selectors name were read.
	labelsRead uint64
	keyBuffer  []byte // room for a key
	// last is the class of the pod that was looked up last, when selectors named
	// that many labels.
	last       *podClass
	lastPod    *v1.Pod
	lastLabels int
	// every is how many attempts go by until one verdict is made anew.
	recheckEvery uint64
	stats        Stats
	attempt      attempt
	closest      cachedClosestNodes
}

// Stats are what a Memo has done.
type Stats struct {
	// Remembered and Plain are attempts, by the way they went.
	Cached, Uncached uint64
	// Met is how many nodes were met on all walks, and Judged how many verdicts
	// about a node were made.
	Visited, Evaluated uint64
	// Classes is how many classes were met for the first time.
	Classes uint64
	// Different is how many verdicts were wrong when they were made anew.
	Mismatches uint64
}

// Stats returns what m has done so far; nothing, if it is nil.
func (m *EquivalenceCache) Stats() Stats {
	if m == nil {
		return Stats{}
	}
	return m.stats
}

// Size is how much m remembers: classes of pods, about how many bytes they take,
// and how many m and those that share its Budget may take together. As all of m it is the loop's.
func (m *EquivalenceCache) Size() (classes, bytes, limit int) {
	if m == nil {
		return 0, 0, 0
	}
	return len(m.classes), m.bytes, m.budget.limit
}

// Recheck makes one verdict anew every so many attempts.
func (m *EquivalenceCache) SetRecheckEvery(every uint64) { m.recheckEvery = every }

const (
	// unread is how far no snapshot ever moves.
	neverRead = math.MaxUint64
	// memoBytes bounds a Memo that shares no Budget.
	defaultCacheBytes = 256 << 20
	// recheckEvery is how many attempts go by until one verdict is recomputed.
	recheckEvery = 64
)

// NewMemo returns what remembers for f, nil where nothing can be remembered:
// the counts are not kept, or weights are so large that a sum of scores does
// not fit a verdict.
func NewEquivalenceCache(f *framework.Framework) *EquivalenceCache {
	snapshot, ok := f.Lister.(*cache.Snapshot)
	if !ok || !snapshot.HasIncrementalCounts() || f.MaxTotalScore() > maxScore {
		return nil
	}
	m := &EquivalenceCache{
		framework: f, snapshot: snapshot, classes: map[string]*podClass{}, tables: map[string]*verdictTable{},
		budget: NewBudget(defaultCacheBytes), recheckEvery: recheckEvery,
	}
	m.cacheableKey, m.remainingKey = f.ClassKeyBuilders(snapshot.SelectorLabelKeys())
	// The labels that selectors name are read when the first pod is looked up: a
	// Memo is made beside the loop, and the snapshot and its labels are the loop's.
	m.labelsRead = neverRead
	if fault.LabelsReadBesideTheLoop {
		f.SelectedLabels(snapshot.SelectorLabelKeys())
	}
	return m
}

// PodInfo is framework.NewPodInfo, which derives what pods of one class share
// once for all of them. Refresh comes before it. A nil Memo shares nothing.
func (m *EquivalenceCache) PodInfo(pod *v1.Pod) (*framework.PodInfo, error) {
	if m == nil {
		return framework.NewPodInfo(pod)
	}
	if class := m.class(pod); class != nil {
		return class.info.ForPodOfSameClass(pod), class.malformed
	}
	return framework.NewPodInfo(pod)
}

// class returns the pod's class, nil for a pod that is like no other.
func (m *EquivalenceCache) class(pod *v1.Pod) *podClass {
	if fault.LastPodUnchecked && m.lastPod == pod {
		return m.last
	}
	if m.labelsRead != m.snapshot.ListerChanges() {
		m.labelsRead = m.snapshot.ListerChanges()
		m.framework.SelectedLabels(m.snapshot.SelectorLabelKeys())
	}
	// The key is made of the pod, which never changes, and of the labels that
	// selectors name, which only become more.
	if labels := len(m.snapshot.SelectorLabelKeys().List()); m.lastPod != pod || m.lastLabels != labels {
		m.lastPod, m.lastLabels, m.last = pod, labels, m.find(pod)
	} else if m.last != nil && !fault.EvictedClassUsed {
		m.budget.touch(m.last)
	}
	return m.last
}

func (m *EquivalenceCache) find(pod *v1.Pod) *podClass {
	m.budget.evictClosed()
	if framework.Uncacheable(pod) {
		return nil
	}
	m.keyBuffer = m.cacheableKey.Append(m.keyBuffer[:0], pod)
	part := len(m.keyBuffer)
	m.keyBuffer = m.remainingKey.Append(m.keyBuffer, pod)
	if found, known := m.classes[string(m.keyBuffer)]; known {
		m.budget.touch(found)
		return found
	}
	made := &podClass{cache: m, key: string(m.keyBuffer), verdictTable: m.table(string(m.keyBuffer[:part]))}
	made.info, made.malformed = framework.NewPodInfo(pod)
	m.classes[made.key] = made
	m.budget.pushNewest(made)
	m.budget.account(m, made.bytes())
	m.stats.Classes++
	increment(m.framework, classesCreated)
	return made
}

// sheet returns the sheet of one more class.
func (m *EquivalenceCache) table(key string) *verdictTable {
	s, known := m.tables[key]
	if !known {
		s = &verdictTable{key: key}
		m.tables[key] = s
	}
	s.classes++
	return s
}

// forget drops a class, and what it remembers: that was found wrong.
func (m *EquivalenceCache) drop(c *podClass) {
	if m.classes[c.key] == c {
		m.budget.evict(c)
	}
	c.verdictTable.clear()
	m.last, m.lastPod = nil, nil
}
