package cycle

import (
	"github.com/berthdev/berth/scheduler/framework"
)

// class is what is known of pods that no plugin can tell apart.
type podClass struct {
	// sheet is what is remembered, together with other classes.
	*verdictTable
	cache *EquivalenceCache
	key   string
	// info is what is derived from a pod of the class, and malformed what was
	// wrong with it.
	info      *framework.PodInfo
	malformed error
	// forms are what the plugins made of it, nil before the first attempt and
	// for a class whose pods go the plain way, which plain says.
	forms       *framework.PodClass
	uncacheable bool
	// moved is the snapshot's when the forms were made.
	formsBuilt uint64

	older, newer *podClass
}

// sheet is what is remembered of nodes for classes that differ in nothing that
// lasting forms read.
type verdictTable struct {
	key     string
	classes int // that have it
	// forms are the lasting ones; nil before the first attempt.
	forms *framework.CacheableForms
	// era is the columns', and nodes how many there were, when the verdicts
	// were found.
	era   uint64
	nodes int

	// entries are verdicts by slot. raws are scores by slot, by the place of
	// each plugin that has to normalise; nil as long as all are zero.
	entries []entry
	// blank says that nothing is remembered yet.
	empty     bool
	rawScores [][]int64
	bytes     int
}

// classBytes is about what a class takes without its verdicts.
const classBytes = 4096

// bytes is about what the class takes without its verdicts.
func (c *podClass) bytes() int { return classBytes + len(c.key) }

// entry is what is remembered about one node.
type entry struct {
	// version is the node's when the rest was found.
	version uint32
	verdict verdict
}

// verdict is the weighted sum of a node's scores that need not be normalised;
// or, above refused, which form refuses the node and why. Of two refusals the
// smaller one comes from the plugin that is asked first.
type verdict uint32

// The marks of verdicts.
const (
	// refused is what all refusals are above.
	rejectedBit verdict = 1 << 31
	// asked marks the refusal of a node that was asked in the plain way; the
	// rest is its place in attempt.asked.
	statusBit verdict = 1<<31 | 1<<30
)

// maxScore bounds sums of scores, so that they are no refusals.
const maxScore = int64(rejectedBit - 1)

func (v verdict) feasible() bool { return v < rejectedBit }

func rejectedBy(place int, refusal framework.RejectionCode) verdict {
	return rejectedBit | verdict(place)<<16 | verdict(refusal)
}

// wasAsked says that v stands for what was said in this attempt.
func (v verdict) isStatus() bool { return v&statusBit == statusBit }

// place and refusal take a refusal apart that is not asked.
func (v verdict) pluginIndex() int                       { return int(v&^rejectedBit) >> 16 }
func (v verdict) rejectionCode() framework.RejectionCode { return framework.RejectionCode(v) }

// ready brings the class up to the snapshot. It reports false when its pods
// have to go the plain way.
func (c *podClass) update(m *EquivalenceCache) bool {
	if c.forms == nil || c.formsBuilt != m.snapshot.ListerChanges() {
		c.rebuild(m)
	}
	if c.uncacheable {
		return false
	}
	if !c.forms.Begin() {
		// Counts are dropped that were not asked for, and come back.
		if c.rebuild(m); c.uncacheable || !c.forms.Begin() {
			return false
		}
	}
	c.verdictTable.update(m)
	return true
}

// renew asks the plugins about the class.
func (c *podClass) rebuild(m *EquivalenceCache) {
	c.forms = m.framework.NewPodClass(c.info.OriginalPod(), m.snapshot.Columns(), c.verdictTable.forms)
	c.formsBuilt = m.snapshot.ListerChanges()
	if c.uncacheable = c.forms == nil; !c.uncacheable {
		c.verdictTable.forms = c.forms.CacheableForms
	}
}

// ready forgets what does not hold any more and makes room for all slots.
func (s *verdictTable) update(m *EquivalenceCache) {
	columns := m.snapshot.Columns()
	if s.era != columns.Era || s.nodes != m.snapshot.Len() && s.forms.DependsOn(framework.NodeCount) {
		s.clear()
	}
	s.era, s.nodes = columns.Era, m.snapshot.Len()
	slots := len(columns.Nodes)
	if slots <= len(s.entries) {
		return
	}
	// Clusters grow by a few nodes at a time.
	room := max(slots, len(s.entries)+len(s.entries)/4)
	s.empty = len(s.entries) == 0
	s.account(m, entryBytes*(room-len(s.entries)))
	s.entries = extendedTo(s.entries, room)
	if s.rawScores == nil {
		s.rawScores = make([][]int64, m.framework.NumScorePlugins())
	}
	for place, row := range s.rawScores {
		if row != nil {
			s.account(m, 8*(room-len(row)))
			s.rawScores[place] = extendedTo(row, room)
		}
	}
}

const entryBytes = 8

// row returns the row of a plugin that has to normalise.
func (s *verdictTable) rawScoreRow(m *EquivalenceCache, place int) []int64 {
	if s.rawScores[place] == nil {
		s.account(m, 8*len(s.entries))
		s.rawScores[place] = make([]int64, len(s.entries))
	}
	return s.rawScores[place]
}

func (s *verdictTable) account(m *EquivalenceCache, bytes int) {
	s.bytes += bytes
	m.budget.account(m, bytes)
}

// forget forgets all nodes.
func (s *verdictTable) clear() {
	clear(s.entries)
	clear(s.rawScores)
}

// grown returns list with n elements, the new ones zero.
func extendedTo[T any](list []T, n int) []T { return append(make([]T, 0, n), list...)[:n] }

// judge finds the verdicts of nodes, and changes the order of slots. It reports
// false when a plugin failed: then some are not known.
func (s *verdictTable) evaluate(a *attempt, slots []framework.Slot) bool {
	a.stats.Evaluated += uint64(len(slots))
	fit, ok := s.filter(a, slots)
	if !ok {
		return false
	}
	a.ranking.raw, a.sums = resize(a.ranking.raw, len(fit)), resize(a.sums, len(fit))
	clear(a.sums)
	for i := range s.forms.CacheableScores {
		if !s.score(a, &s.forms.CacheableScores[i], fit) {
			return false
		}
	}
	versions := a.snapshot.Columns().Versions
	for i, slot := range fit {
		s.entries[slot] = entry{versions[slot], a.sums[i]}
	}
	return true
}

// filter finds the verdicts of nodes that are refused, and returns the others. It
// is not ok when a plugin failed.
func (s *verdictTable) filter(a *attempt, slots []framework.Slot) (fit []framework.Slot, ok bool) {
	a.rejectionCodes, a.sums = resize(a.rejectionCodes, len(slots)), resize(a.sums, len(slots))
	any := false
	for i := range s.forms.CacheableFilters {
		form := &s.forms.CacheableFilters[i]
		if form.Idle() {
			continue
		}
		a.framework.RunBatchFilter(a.State, form, slots, a.rejectionCodes)
		for n, refusal := range a.rejectionCodes {
			if refusal == framework.NotRejected {
				continue
			}
			if refusal == framework.FilterFailed {
				return nil, false
			}
			if !any {
				any = true
				clear(a.sums)
			}
			// The first form that refuses decides.
			if a.sums[n].feasible() {
				a.sums[n] = rejectedBy(form.Index, refusal)
			}
		}
	}
	if !any {
		return slots, true
	}
	fit = slots[:0]
	for n, slot := range slots {
		if v := a.sums[n]; v.feasible() {
			fit = append(fit, slot)
		} else {
			s.entries[slot] = entry{a.snapshot.Columns().Versions[slot], v}
		}
	}
	return fit, true
}

// score adds the scores of nodes by one lasting form to the sums, or keeps them
// where they have to be normalised.
func (s *verdictTable) score(a *attempt, form *framework.ClassScore, slots []framework.Slot) bool {
	row := s.rawScores[form.Index]
	if form.Normalizer != nil && row == nil && form.Idle() {
		return true
	}
	raw := a.ranking.raw
	if a.framework.RunBatchScore(a.State, form, slots, raw) != framework.Scored {
		return false
	}
	if form.Normalizer == nil {
		for i := range slots {
			a.sums[i] += verdict(form.Weight * raw[i])
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
