package podtopologyspread

import (
	"github.com/berthdev/berth/scheduler/framework"
)

// crowdTable remembers, during one call, the scores of nodes that cannot differ:
// those in the same domain of the only rule by domain, with as many pods under
// the only rule by host. There are few, and a logarithm's multiples take long to
// round.
type crowdTable struct {
	// labelled are the domains of the rule by domain, hosts those of the rule by
	// host; nil where there is no such rule.
	labelled, hosts *framework.Domains
	nodes           *framework.NodeNumbers
	cells           []cell // by domain, tableWidth for each
	call            uint32
}

// cell is a score, and the call in which it was found.
type cell struct {
	call  uint32
	score int64
}

const (
	// tableWidth is how many cells a domain has: one for nodes that are no host,
	// and one each for 0 pods and up.
	tableWidth = 8
	// maxTableDomains bounds a table; more domains leave few nodes to each.
	maxTableDomains = 1024
)

// tableOf returns the table for rules, nil where these have no such order.
func tableOf(rules []softRule) *crowdTable {
	t := &crowdTable{}
	for i := range rules {
		switch rule := &rules[i]; {
		case rule.nodes != nil && t.hosts == nil:
			t.hosts, t.nodes = rule.labelled, rule.nodes
		case rule.nodes == nil && t.labelled == nil:
			t.labelled = rule.labelled
		default:
			return nil
		}
	}
	return t
}

// begin makes room for all domains; it reports false when they are too many.
func (t *crowdTable) begin() bool {
	size := tableWidth
	if t.labelled != nil {
		size *= t.labelled.Len()
	}
	if size > tableWidth*maxTableDomains {
		return false
	}
	if t.call++; t.call == 0 || len(t.cells) < size {
		t.cells, t.call = make([]cell, size), 1
	}
	return true
}

// fill puts the scores of nodes that all count into scores.
func (t *crowdTable) fill(f *scoreForm, slots []framework.Slot, scores []int64) {
	if !t.begin() {
		for i, slot := range slots {
			scores[i] = f.crowd(slot)
		}
		return
	}
	var domains, hosts []int32
	var counts []int32
	if t.labelled != nil {
		domains = t.labelled.Of()
	}
	if t.hosts != nil {
		hosts, counts = t.hosts.Of(), t.nodes.By
	}
	for i, slot := range slots {
		at := 0
		if domains != nil {
			at = int(domains[slot]) * tableWidth
		}
		if hosts != nil && hosts[slot] != framework.NoDomain {
			at++
			if int(slot) < len(counts) {
				if pods := int(counts[slot]); pods < tableWidth-1 {
					at += pods
				} else {
					scores[i] = f.crowd(slot)
					continue
				}
			}
		}
		c := &t.cells[at]
		if c.call != t.call {
			c.call, c.score = t.call, f.crowd(slot)
		}
		scores[i] = c.score
	}
}

// turnTable remembers what scores are turned round to, for those close to the
// least: many nodes have the same, and a division takes long.
type turnTable struct {
	least, most int64
	known       [64]bool
	turned      [64]int64
}

func (t *turnTable) begin(least, most int64) {
	*t = turnTable{least: least, most: most}
}

func (t *turnTable) of(score int64) int64 {
	at := score - t.least
	if at < 0 || at >= int64(len(t.known)) {
		return turned(score, t.least, t.most)
	}
	if !t.known[at] {
		t.known[at], t.turned[at] = true, turned(score, t.least, t.most)
	}
	return t.turned[at]
}
