package cycle

import (
	"github.com/berthdev/berth/scheduler/framework"
)

// class is what is known of pods that no plugin can tell apart.
type class struct {
	// sheet is what is remembered, together with other classes.
	*sheet
	memo *Memo
	key  string
	// info is what is derived from a pod of the class, and malformed what was
	// wrong with it.
	info      *framework.PodInfo
	malformed error
	// forms are what the plugins made of it, nil before the first attempt and
	// for a class whose pods go the plain way, which plain says.
	forms *framework.Class
	plain bool
	// moved is the snapshot's when the forms were made.
	moved uint64

	older, newer *class
}

// sheet is what is remembered of nodes for classes that differ in nothing that
// lasting forms read.
type sheet struct {
	key     string
	classes int // that have it
	// forms are the lasting ones; nil before the first attempt.
	forms *framework.Lasting
	// era is the columns', and nodes how many there were, when the verdicts
	// were found.
	era   uint64
	nodes int

	// entries are verdicts by slot. raws are scores by slot, by the place of
	// each plugin that has to normalise; nil as long as all are zero.
	entries []entry
	// blank says that nothing is remembered yet.
	blank bool
	raws  [][]int64
	bytes int
}

// classBytes is about what a class takes without its verdicts.
const classBytes = 4096

// bytes is about what the class takes without its verdicts.
func (c *class) bytes() int { return classBytes + len(c.key) }

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
	refused verdict = 1 << 31
	// asked marks the refusal of a node that was asked in the plain way; the
	// rest is its place in attempt.asked.
	asked verdict = 1<<31 | 1<<30
)

// maxScore bounds sums of scores, so that they are no refusals.
const maxScore = int64(refused - 1)

func (v verdict) fits() bool { return v < refused }

func refusedBy(place int, refusal framework.Refusal) verdict {
	return refused | verdict(place)<<16 | verdict(refusal)
}

// wasAsked says that v stands for what was said in this attempt.
func (v verdict) wasAsked() bool { return v&asked == asked }

// place and refusal take a refusal apart that is not asked.
func (v verdict) place() int                 { return int(v&^refused) >> 16 }
func (v verdict) refusal() framework.Refusal { return framework.Refusal(v) }

// ready brings the class up to the snapshot. It reports false when its pods
// have to go the plain way.
func (c *class) ready(m *Memo) bool {
	if c.forms == nil || c.moved != m.snapshot.Moved() {
		c.renew(m)
	}
	if c.plain {
		return false
	}
	if !c.forms.Begin() {
		// Counts are dropped that were not asked for, and come back.
		if c.renew(m); c.plain || !c.forms.Begin() {
			return false
		}
	}
	c.sheet.ready(m)
	return true
}

// renew asks the plugins about the class.
func (c *class) renew(m *Memo) {
	c.forms = m.framework.NewClass(c.info.Unassigned(), m.snapshot.Columns(), c.sheet.forms)
	c.moved = m.snapshot.Moved()
	if c.plain = c.forms == nil; !c.plain {
		c.sheet.forms = c.forms.Lasting
	}
}

// ready forgets what does not hold any more and makes room for all slots.
func (s *sheet) ready(m *Memo) {
	columns := m.snapshot.Columns()
	if s.era != columns.Era || s.nodes != m.snapshot.Len() && s.forms.Minds(framework.NodeCount) {
		s.forget()
	}
	s.era, s.nodes = columns.Era, m.snapshot.Len()
	slots := len(columns.Nodes)
	if slots <= len(s.entries) {
		return
	}
	// Clusters grow by a few nodes at a time.
	room := max(slots, len(s.entries)+len(s.entries)/4)
	s.blank = len(s.entries) == 0
	s.take(m, entryBytes*(room-len(s.entries)))
	s.entries = grown(s.entries, room)
	if s.raws == nil {
		s.raws = make([][]int64, m.framework.ScorePlugins())
	}
	for place, row := range s.raws {
		if row != nil {
			s.take(m, 8*(room-len(row)))
			s.raws[place] = grown(row, room)
		}
	}
}

const entryBytes = 8

// row returns the row of a plugin that has to normalise.
func (s *sheet) row(m *Memo, place int) []int64 {
	if s.raws[place] == nil {
		s.take(m, 8*len(s.entries))
		s.raws[place] = make([]int64, len(s.entries))
	}
	return s.raws[place]
}

func (s *sheet) take(m *Memo, bytes int) {
	s.bytes += bytes
	m.budget.account(m, bytes)
}

// forget forgets all nodes.
func (s *sheet) forget() {
	clear(s.entries)
	clear(s.raws)
}

// grown returns list with n elements, the new ones zero.
func grown[T any](list []T, n int) []T { return append(make([]T, 0, n), list...)[:n] }
