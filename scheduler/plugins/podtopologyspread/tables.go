package podtopologyspread

import (
	"github.com/berthdev/berth/scheduler/framework"
)

// crowdTable remembers, during one call, the scores of nodes that cannot differ:
// those in the same domain of the only rule by domain, with as many pods under
// the only rule by host. There are few, and a logarithm's multiples take long to
// round.
type scoreTable struct {
	// labelled are the domains of the rule by domain, hosts those of the rule by
	// host; nil where there is no such rule.
	domains, hosts *framework.Domains
	nodeCounts     *framework.NodeCounts
	entries        []scoreEntry // by domain, tableWidth for each
	call           uint32
}

// cell is a score, and the call in which it was found.
type scoreEntry struct {
	call  uint32
	score int64
}

const (
	// tableWidth is how many cells a domain has: one for nodes that are no host,
	// and one each for 0 pods and up.
	entriesPerDomain = 8
	// maxTableDomains bounds a table; more domains leave few nodes to each.
	maxTableDomains = 1024
)

// tableOf returns the table for rules, nil where these have no such order.
func newScoreTable(rules []softConstraint) *scoreTable {
	t := &scoreTable{}
	for i := range rules {
		switch rule := &rules[i]; {
		case rule.nodeCounts != nil && t.hosts == nil:
			t.hosts, t.nodeCounts = rule.nodeDomains, rule.nodeCounts
		case rule.nodeCounts == nil && t.domains == nil:
			t.domains = rule.nodeDomains
		default:
			return nil
		}
	}
	return t
}

// begin makes room for all domains; it reports false when they are too many.
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

// fill puts the scores of nodes that all count into scores.
func (t *scoreTable) fill(f *batchScore, slots []framework.Slot, scores []int64) {
	if !t.begin() {
		for i, slot := range slots {
			scores[i] = f.scoreNode(slot)
		}
		return
	}
	var domains, hosts []int32
	var counts []int32
	if t.domains != nil {
		domains = t.domains.BySlot()
	}
	if t.hosts != nil {
		hosts, counts = t.hosts.BySlot(), t.nodeCounts.BySlot
	}
	for i, slot := range slots {
		at := 0
		if domains != nil {
			at = int(domains[slot]) * entriesPerDomain
		}
		if hosts != nil && hosts[slot] != framework.NoDomain {
			at++
			if int(slot) < len(counts) {
				if pods := int(counts[slot]); pods < entriesPerDomain-1 {
					at += pods
				} else {
					scores[i] = f.scoreNode(slot)
					continue
				}
			}
		}
		c := &t.entries[at]
		if c.call != t.call {
			c.call, c.score = t.call, f.scoreNode(slot)
		}
		scores[i] = c.score
	}
}

// turnTable remembers what scores are turned round to, for those close to the
// least: many nodes have the same, and a division takes long.
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
