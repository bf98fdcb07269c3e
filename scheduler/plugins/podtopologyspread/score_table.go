package podtopologyspread

import (
	"github.com/berthdev/berth/scheduler/framework/counts"
)

// scoreTable caches, during one call, the scores of nodes that have equal scores: nodes
// in the same domain of the only constraint by domain and with the same number of pods
// for the only constraint by host. There are few such scores, and weighting and
// rounding each of them takes long.
type scoreTable struct {
	// domains are those of the constraint by domain, hosts those of the constraint by
	// host; nil if there is no such constraint.
	domains, hosts *counts.Domains
	nodeCounts     *counts.NodeCounts
	entries        []scoreEntry // by domain, entriesPerDomain for each
	call           uint32
}

// scoreEntry is a score and the call in which it was computed.
type scoreEntry struct {
	call  uint32
	score int64
}

const (
	// entriesPerDomain is the number of entries for each domain: one for nodes without
	// a host name, the others for 0 pods and more.
	entriesPerDomain = 8
	// maxTableDomains limits the size of a table. With more domains few nodes share an
	// entry.
	maxTableDomains = 1024
)

// newScoreTable returns the table for constraints; nil if there is more than one by
// domain or by host.
func newScoreTable(constraints []softConstraint) *scoreTable {
	t := &scoreTable{}
	for i := range constraints {
		switch soft := &constraints[i]; {
		case soft.nodeCounts != nil && t.hosts == nil:
			t.hosts, t.nodeCounts = soft.nodeDomains, soft.nodeCounts
		case soft.nodeCounts == nil && t.domains == nil:
			t.domains = soft.nodeDomains
		default:
			return nil
		}
	}
	return t
}

// begin allocates entries for all domains. It returns false if there are too many.
func (t *scoreTable) begin() bool {
	size := entriesPerDomain
	if t.domains != nil {
		size *= t.domains.Len()
	}
	if size > entriesPerDomain*maxTableDomains {
		return false
	}
	if t.call++; t.call == 0 || len(t.entries) < size {
		t.entries, t.call = make([]scoreEntry, size), 1
	}
	return true
}

// fill writes the scores of nodes to scores. None of them may be ignored.
func (t *scoreTable) fill(f *batchScore, slots []counts.Slot, scores []int64) {
	if !t.begin() {
		for i, slot := range slots {
			scores[i] = f.scoreNode(slot)
		}
		return
	}
	var domains, hosts, bySlot []int32
	if t.domains != nil {
		domains = t.domains.BySlot()
	}
	if t.hosts != nil {
		hosts, bySlot = t.hosts.BySlot(), t.nodeCounts.BySlot
	}
	entries, call, scores := t.entries, t.call, scores[:len(slots)]
	for i, slot := range slots {
		at := 0
		if domains != nil {
			at = int(domains[slot]) * entriesPerDomain
		}
		if hosts != nil && hosts[slot] != counts.NoDomain {
			at++
			if int(slot) < len(bySlot) {
				if pods := int(bySlot[slot]); pods < entriesPerDomain-1 {
					at += pods
				} else {
					scores[i] = f.scoreNode(slot)
					continue
				}
			}
		}
		c := &entries[at]
		if c.call != call {
			c.call, c.score = call, f.scoreNode(slot)
		}
		scores[i] = c.score
	}
}

// normalizeTable caches the normalized scores of those close to minScore: many nodes
// have the same score, and a division takes long.
type normalizeTable struct {
	minScore, maxScore int64
	known              [64]bool
	scores             [64]int64
}

func (t *normalizeTable) reset(least, most int64) {
	*t = normalizeTable{minScore: least, maxScore: most}
}

func (t *normalizeTable) normalize(score int64) int64 {
	at := score - t.minScore
	if at < 0 || at >= int64(len(t.known)) {
		return reversedScore(score, t.minScore, t.maxScore)
	}
	if !t.known[at] {
		t.known[at], t.scores[at] = true, reversedScore(score, t.minScore, t.maxScore)
	}
	return t.scores[at]
}

// normalizeAll normalizes all scores. It is normalize in a loop, which the compiler
// does not inline.
func (t *normalizeTable) normalizeAll(scores []int64) {
	for i, score := range scores {
		if at := uint64(score - t.minScore); at < uint64(len(t.known)) && t.known[at] {
			scores[i] = t.scores[at]
		} else {
			scores[i] = t.normalize(score)
		}
	}
}
