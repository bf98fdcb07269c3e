package framework

import (
	"maps"
	"math"
)

// Tally is numbers by domain, and what somebody adds to them for himself. The
// numbers as they were counted are shared between clones, and may move with
// the snapshot: then a Tally is good until it moves. It is not safe for use
// while someone adds.
type Tally struct {
	// counted add up; each is multiplied first.
	counted []Counted
	// added is what came on top, by domain.
	added map[string]int64
}

// Counted is a part of a Tally.
type Counted struct {
	*Numbers
	Factor int64
}

// NewTally returns a Tally of numbers, which must not be changed any more.
func NewTally(numbers map[string]int64) *Tally { return TallyOf(numbersOf(numbers)) }

// TallyOf returns a Tally of numbers that somebody keeps.
func TallyOf(numbers *Numbers) *Tally { return &Tally{counted: []Counted{{numbers, 1}}} }

// Count adds factor times numbers to what was counted.
func (t *Tally) Count(numbers *Numbers, factor int64) {
	t.counted = append(t.counted, Counted{numbers, factor})
}

// Counted returns the parts of what was counted.
func (t *Tally) Counted() []Counted { return t.counted }

// Of returns the number of a domain, 0 when it is not listed.
func (t *Tally) Of(domain string) int64 {
	n := t.added[domain]
	for i := range t.counted {
		n += t.counted[i].Factor * t.counted[i].Of(domain)
	}
	return n
}

// Add adds n, which may be negative, to a domain, and lists the domain.
func (t *Tally) Add(domain string, n int64) {
	if t.added == nil {
		t.added = map[string]int64{}
	}
	t.added[domain] += n
}

// Domains is how many domains are listed. Of a Tally of several parts it is
// the first one's.
func (t *Tally) Domains() int {
	if len(t.counted) == 0 {
		return len(t.added)
	}
	n := t.counted[0].CountDomains()
	for domain := range t.added {
		if !t.counted[0].lists(domain) {
			n++
		}
	}
	return n
}

// Listed reports whether any domain is listed.
func (t *Tally) Listed() bool {
	for i := range t.counted {
		if t.counted[i].total > 0 {
			return true
		}
	}
	return len(t.added) > 0
}

// Zero reports whether no domain has a number other than 0, for a Tally of one
// part.
func (t *Tally) Zero() bool {
	nonzero := 0
	for i := range t.counted {
		nonzero += t.counted[i].nonzero
	}
	for domain, n := range t.added {
		switch of := t.Of(domain); {
		case of != n && of == 0:
			nonzero-- // what was counted there is taken back
		case of == n && n != 0:
			nonzero++
		}
	}
	return nonzero == 0
}

// Least is the smallest number of a listed domain, math.MaxInt32 when none is
// listed, for a Tally of one part. It takes time proportional to what was
// added, and more only where that touched all the domains with the lowest
// number.
func (t *Tally) Least() int64 {
	least := int64(math.MaxInt32)
	for domain := range t.added {
		least = min(least, t.Of(domain))
	}
	if len(t.counted) == 0 || t.counted[0].domains == 0 {
		return least
	}
	n := t.counted[0].Numbers
	lowest, touched := n.Least(), 0
	for domain := range t.added {
		if n.lists(domain) && n.Of(domain) == lowest {
			touched++
		}
	}
	if touched < n.lowest {
		return min(least, lowest)
	}
	for id, listed := range n.listed {
		if _, changed := t.added[n.Domains.names[id]]; listed > 0 && !changed {
			least = min(least, n.by[id])
		}
	}
	return least
}

// Clone returns a Tally with the same numbers that goes its own way.
func (t *Tally) Clone() *Tally { return &Tally{counted: t.counted, added: maps.Clone(t.added)} }

func (n *Numbers) lists(domain string) bool {
	id := n.Domains.ID(domain)
	return id != NoDomain && int(id) < len(n.listed) && n.listed[id] > 0
}
