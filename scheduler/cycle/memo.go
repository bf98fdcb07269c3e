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
type Memo struct {
	framework *framework.Framework
	snapshot  *cache.Snapshot
	// lasting and rest write the two parts of a class's key; the first is its
	// sheet's.
	lasting, rest *framework.ClassKeys
	// classes are known by key.
	classes map[string]*class
	sheets  map[string]*sheet
	// bytes is about what classes and sheets take, and budget bounds it together
	// with other Memos.
	bytes  int
	budget *Budget
	// moved is the snapshot's, when the labels that selectors name were read.
	moved uint64
	text  []byte // room for a key
	// last is the class of the pod that was looked up last, when selectors named
	// that many labels.
	last       *class
	lastPod    *v1.Pod
	lastLabels int
	// every is how many attempts go by until one verdict is made anew.
	every   uint64
	stats   Stats
	attempt attempt
	near    nearestKnown
}

// Stats are what a Memo has done.
type Stats struct {
	// Remembered and Plain are attempts, by the way they went.
	Remembered, Plain uint64
	// Met is how many nodes were met on all walks, and Judged how many verdicts
	// about a node were made.
	Met, Judged uint64
	// Classes is how many classes were met for the first time.
	Classes uint64
	// Different is how many verdicts were wrong when they were made anew.
	Different uint64
}

// Stats returns what m has done so far; nothing, if it is nil.
func (m *Memo) Stats() Stats {
	if m == nil {
		return Stats{}
	}
	return m.stats
}

// Size is how much m remembers: classes of pods, about how many bytes they take,
// and how many m and those that share its Budget may take together. As all of m it is the loop's.
func (m *Memo) Size() (classes, bytes, limit int) {
	if m == nil {
		return 0, 0, 0
	}
	return len(m.classes), m.bytes, m.budget.limit
}

// Recheck makes one verdict anew every so many attempts.
func (m *Memo) Recheck(every uint64) { m.every = every }

const (
	// unread is how far no snapshot ever moves.
	unread = math.MaxUint64
	// memoBytes bounds a Memo that shares no Budget.
	memoBytes = 256 << 20
	// recheckEvery is how many attempts go by until one verdict is recomputed.
	recheckEvery = 64
)

// NewMemo returns what remembers for f, nil where nothing can be remembered:
// the counts are not kept, or weights are so large that a sum of scores does
// not fit a verdict.
func NewMemo(f *framework.Framework) *Memo {
	snapshot, ok := f.Lister.(*cache.Snapshot)
	if !ok || !snapshot.Keeps() || f.HighestScore() > maxScore {
		return nil
	}
	m := &Memo{
		framework: f, snapshot: snapshot, classes: map[string]*class{}, sheets: map[string]*sheet{},
		budget: NewBudget(memoBytes), every: recheckEvery,
	}
	m.lasting, m.rest = f.ClassKeys(snapshot.Labels())
	// The labels that selectors name are read when the first pod is looked up: a
	// Memo is made beside the loop, and the snapshot and its labels are the loop's.
	m.moved = unread
	if fault.LabelsReadBesideTheLoop {
		f.SelectedLabels(snapshot.Labels())
	}
	return m
}

// PodInfo is framework.NewPodInfo, which derives what pods of one class share
// once for all of them. Refresh comes before it. A nil Memo shares nothing.
func (m *Memo) PodInfo(pod *v1.Pod) (*framework.PodInfo, error) {
	if m == nil {
		return framework.NewPodInfo(pod)
	}
	if class := m.class(pod); class != nil {
		return class.info.Like(pod), class.malformed
	}
	return framework.NewPodInfo(pod)
}

// class returns the pod's class, nil for a pod that is like no other.
func (m *Memo) class(pod *v1.Pod) *class {
	if fault.LastPodUnchecked && m.lastPod == pod {
		return m.last
	}
	if m.moved != m.snapshot.Moved() {
		m.moved = m.snapshot.Moved()
		m.framework.SelectedLabels(m.snapshot.Labels())
	}
	// The key is made of the pod, which never changes, and of the labels that
	// selectors name, which only become more.
	if labels := len(m.snapshot.Labels().List()); m.lastPod != pod || m.lastLabels != labels {
		m.lastPod, m.lastLabels, m.last = pod, labels, m.find(pod)
	} else if m.last != nil && !fault.EvictedClassUsed {
		m.budget.touch(m.last)
	}
	return m.last
}

func (m *Memo) find(pod *v1.Pod) *class {
	m.budget.sweep()
	if framework.Singular(pod) {
		return nil
	}
	m.text = m.lasting.Append(m.text[:0], pod)
	part := len(m.text)
	m.text = m.rest.Append(m.text, pod)
	if found, known := m.classes[string(m.text)]; known {
		m.budget.touch(found)
		return found
	}
	made := &class{memo: m, key: string(m.text), sheet: m.sheet(string(m.text[:part]))}
	made.info, made.malformed = framework.NewPodInfo(pod)
	m.classes[made.key] = made
	m.budget.push(made)
	m.budget.account(m, made.bytes())
	m.stats.Classes++
	count(m.framework, classesMade)
	return made
}

// sheet returns the sheet of one more class.
func (m *Memo) sheet(key string) *sheet {
	s, known := m.sheets[key]
	if !known {
		s = &sheet{key: key}
		m.sheets[key] = s
	}
	s.classes++
	return s
}

// forget drops a class, and what it remembers: that was found wrong.
func (m *Memo) forget(c *class) {
	if m.classes[c.key] == c {
		m.budget.evict(c)
	}
	c.sheet.forget()
	m.last, m.lastPod = nil, nil
}
