package cycle

import (
	"sync/atomic"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/framework/counts"
	"github.com/berthdev/berth/scheduler/framework/podclass"
)

// lastClassID is shared by the whole process, so that classes of all profiles
// and Generations differ.
var lastClassID atomic.Uint64

// podClass is the cached data of a pod class.
type podClass struct {
	// verdictTable is shared with classes that differ in nothing that cacheable
	// forms read.
	*verdictTable
	cache *EquivalenceCache
	key   string
	// alikeKey is the part of key that classes have in common that differ only in
	// their requests.
	alikeKey string
	// info is derived from a pod of the class, and malformed the error about
	// it.
	info      *framework.PodInfo
	malformed error
	// forms is what the plugins computed for the class; nil before the first
	// attempt, and if uncacheable, that is if its pods have to be scheduled by
	// the reference.
	forms       *podclass.Class
	uncacheable bool
	// formsBuilt is the snapshot's ListerChanges when forms was built, and id
	// what identifies forms in the process.
	formsBuilt, id uint64
	// withNominated are statuses of nodes with the pods that are nominated for
	// them.
	withNominated map[counts.Slot]statusWithNominated

	older, newer *podClass
}

// verdictTable holds a verdict for each node, for all classes that differ in
// nothing that cacheable forms read.
type verdictTable struct {
	key     string
	classes int // number of classes with this table
	// forms are the cacheable forms; nil before the first attempt.
	forms *podclass.CacheableForms
	// era is the era of the columns and nodes the number of nodes for which the
	// verdicts are valid.
	era   uint64
	nodes int

	// entries are the verdicts by slot: in the first attempt those of
	// EquivalenceCache.first, from the second on the table's own. rawScores are
	// raw scores by index of a plugin that needs normalization, and by slot; a
	// row is nil while all its scores are zero.
	entries []entry
	// attempted says that the first attempt has begun.
	attempted bool
	// empty says that no entry was written yet.
	empty     bool
	rawScores [][]int64
	bytes     int
}

// firstEntries are the entries of the verdict table that used them last, in its
// first attempt. Many classes have only one pod: with entries of their own,
// allocating these would take longer than computing the verdicts, and they would
// displace the verdicts of classes that have more pods. They do not count
// towards the Budget.
type firstEntries struct {
	owner   *verdictTable
	entries []entry
	// written are the slots of the verdicts in entries.
	written []counts.Slot
}

// lend makes the entries those of s, without any verdict.
func (f *firstEntries) lend(s *verdictTable, size int) {
	if f.owner != nil {
		f.owner.entries = nil
	}
	if len(f.entries) < size {
		f.entries, f.written = make([]entry, size+size/4), nil
	}
	for _, slot := range f.written {
		f.entries[slot] = entry{}
	}
	f.owner, f.written, s.entries, s.empty = s, f.written[:0], f.entries, true
}

// classBytes is about the size of a class without its verdict table.
const classBytes = 4096

// bytes is about the size of the class without its verdict table.
func (c *podClass) bytes() int {
	return classBytes + len(c.key) + bytesWithNominated*len(c.withNominated)
}

// entry is the verdict for one node.
type entry struct {
	// version is the node's version for which the verdict is valid; 0 for none.
	version uint32
	verdict verdict
}

// verdict is either the weighted sum of a node's scores that need no
// normalization, or, with rejectedBit, the plugin that rejects the node and its
// RejectionCode. Of two rejections the smaller is by the earlier plugin of the
// chain.
type verdict uint32

// Marks of verdicts.
const (
	// rejectedBit marks a rejection.
	rejectedBit verdict = 1 << 31
	// statusBit marks a rejection by the reference or an opaque plugin; the
	// rest is an index into attempt.statuses.
	statusBit verdict = 1<<31 | 1<<30
)

// maxScore bounds sums of scores, so that they cannot be confused with
// rejections.
const maxScore = int64(rejectedBit - 1)

func (v verdict) feasible() bool { return v < rejectedBit }

func rejectedBy(index int, code podclass.RejectionCode) verdict {
	return rejectedBit | verdict(index)<<16 | verdict(code)
}

// isStatus reports whether v is an index into attempt.statuses.
func (v verdict) isStatus() bool { return v&statusBit == statusBit }

// pluginIndex and rejectionCode are the parts of a rejection without statusBit.
func (v verdict) pluginIndex() int                      { return int(v&^rejectedBit) >> 16 }
func (v verdict) rejectionCode() podclass.RejectionCode { return podclass.RejectionCode(v) }

// update makes the class valid for the current snapshot. It returns false if
// its pods have to be scheduled by the reference.
func (c *podClass) update(m *EquivalenceCache) bool {
	if c.forms == nil || c.formsBuilt != m.snapshot.ListerChanges() {
		c.rebuild(m)
	}
	if c.uncacheable {
		return false
	}
	if !c.forms.Begin() {
		// Counts that were not queried for long are dropped. Building the class
		// queries them again.
		if c.rebuild(m); c.uncacheable || !c.forms.Begin() {
			return false
		}
	}
	c.verdictTable.update(m)
	return true
}

// rebuild lets the plugins compute the class again, or only those that read
// requests.
func (c *podClass) rebuild(m *EquivalenceCache) {
	pod, columns := c.info.OriginalPod(), m.snapshot.Columns()
	if alike := m.alike[c.alikeKey]; m.requestReaders != nil && alike != nil && alike != c && alike.isCurrent(m) {
		c.forms = m.requestReaders.New(alike.forms, pod, columns, c.verdictTable.forms)
	} else {
		c.forms = podclass.New(m.framework, pod, columns, c.verdictTable.forms)
		m.alike[c.alikeKey] = c
	}
	c.formsBuilt, c.id = m.snapshot.ListerChanges(), lastClassID.Add(1)
	c.forgetNominated()
	if c.uncacheable = c.forms == nil; !c.uncacheable {
		c.verdictTable.forms = c.forms.CacheableForms
	}
}

// isCurrent reports whether the forms are valid for the current snapshot.
func (c *podClass) isCurrent(m *EquivalenceCache) bool {
	return c.forms != nil && c.formsBuilt == m.snapshot.ListerChanges() && c.forms.Begin()
}

// update clears verdicts that are no longer valid, and grows the table to the
// number of slots.
func (s *verdictTable) update(m *EquivalenceCache) {
	columns := m.snapshot.Columns()
	if s.era != columns.Era || s.nodes != m.snapshot.Len() && s.forms.DependsOn(framework.NodeCount) {
		s.clear()
	}
	s.era, s.nodes = columns.Era, m.snapshot.Len()
	slots := len(columns.Nodes)
	switch {
	case !s.attempted:
		s.attempted = true
		m.first.lend(s, slots)
	case m.first.owner == s:
		m.first = firstEntries{} // no other class used them since
		s.account(m, entryBytes*len(s.entries))
	}
	if slots > len(s.entries) {
		s.grow(m, slots)
	}
	if s.rawScores == nil {
		s.rawScores = make([][]int64, len(m.framework.ScoreChain()))
	}
}

// grow extends the table to slots and a quarter more than before, because
// clusters grow by a few nodes at a time.
func (s *verdictTable) grow(m *EquivalenceCache, slots int) {
	size := max(slots, len(s.entries)+len(s.entries)/4)
	s.empty = len(s.entries) == 0
	s.account(m, entryBytes*(size-len(s.entries)))
	s.entries = extendedTo(s.entries, size)
	for index, row := range s.rawScores {
		if row != nil {
			s.account(m, 8*(size-len(row)))
			s.rawScores[index] = extendedTo(row, size)
		}
	}
}

const entryBytes = 8

// rawScoreRow returns the raw scores of a plugin by slot.
func (s *verdictTable) rawScoreRow(m *EquivalenceCache, index int) []int64 {
	if s.rawScores[index] == nil {
		s.account(m, 8*len(s.entries))
		s.rawScores[index] = make([]int64, len(s.entries))
	}
	return s.rawScores[index]
}

func (s *verdictTable) account(m *EquivalenceCache, bytes int) {
	s.bytes += bytes
	m.budget.account(m, bytes)
}

// clear removes all verdicts.
func (s *verdictTable) clear() {
	clear(s.entries)
	clear(s.rawScores)
}

// extendedTo returns a copy of list with n elements, the new ones zero.
func extendedTo[T any](list []T, n int) []T { return append(make([]T, 0, n), list...)[:n] }

// evaluate computes the verdicts of nodes, and reorders slots. It returns false
// if a plugin failed; then some verdicts are missing.
func (s *verdictTable) evaluate(a *attempt, slots []counts.Slot) bool {
	a.stats.Evaluated += uint64(len(slots))
	if a.first.owner == s {
		a.first.written = append(a.first.written, slots...)
	}
	feasible, ok := s.filter(a, slots)
	if !ok {
		return false
	}
	a.ranking.raw, a.sums = resize(a.ranking.raw, len(feasible)), resize(a.sums, len(feasible))
	clear(a.sums)
	for i := range s.forms.CacheableScores {
		if !s.score(a, &s.forms.CacheableScores[i], feasible) {
			return false
		}
	}
	versions, entries, sums := a.snapshot.Columns().Versions, s.entries, a.sums
	for i, slot := range feasible {
		entries[slot] = entry{versions[slot], sums[i]}
	}
	return true
}

// filter sets the verdicts of rejected nodes, and returns the slots of the
// others. ok is false if a plugin failed.
func (s *verdictTable) filter(a *attempt, slots []counts.Slot) (feasible []counts.Slot, ok bool) {
	a.rejectionCodes, a.sums = resize(a.rejectionCodes, len(slots)), resize(a.sums, len(slots))
	anyRejected := false
	for i := range s.forms.CacheableFilters {
		form := &s.forms.CacheableFilters[i]
		if form.Idle() {
			continue
		}
		form.Run(a.framework, a.State, slots, a.rejectionCodes)
		for n, code := range a.rejectionCodes {
			if code == podclass.NotRejected {
				continue
			}
			if code == podclass.FilterFailed {
				return nil, false
			}
			if !anyRejected {
				anyRejected = true
				clear(a.sums)
			}
			// The first plugin of the chain that rejects decides.
			if a.sums[n].feasible() {
				a.sums[n] = rejectedBy(form.Index, code)
			}
		}
	}
	if !anyRejected {
		return slots, true
	}
	feasible = slots[:0]
	for n, slot := range slots {
		if v := a.sums[n]; v.feasible() {
			feasible = append(feasible, slot)
		} else {
			s.entries[slot] = entry{a.snapshot.Columns().Versions[slot], v}
		}
	}
	return feasible, true
}

// score adds the weighted scores of one cacheable plugin to sums, or stores
// them in rawScores if they need normalization. It returns false if the plugin
// failed.
func (s *verdictTable) score(a *attempt, form *podclass.ClassScore, slots []counts.Slot) bool {
	row := s.rawScores[form.Index]
	if form.Normalizer != nil && row == nil && form.Idle() {
		return true
	}
	raw := a.ranking.raw[:len(slots)]
	if form.Run(a.framework, a.State, slots, raw) != podclass.Scored {
		return false
	}
	if form.Normalizer == nil {
		sums, weight := a.sums[:len(raw)], form.Weight
		for i, score := range raw {
			sums[i] += verdict(weight * score)
		}
		return true
	}
	for i, slot := range slots {
		if raw[i] != 0 && row == nil {
			row = s.rawScoreRow(a.EquivalenceCache, form.Index)
		}
		if row != nil {
			row[slot] = raw[i]
		}
	}
	return true
}
