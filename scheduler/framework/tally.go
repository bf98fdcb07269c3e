package framework

import (
	"maps"
	"math"
)

// Tally is numbers by domain, and what somebody adds to them for himself. The
// numbers as they were counted are shared between clones, and may move with
// the snapshot: then a Tally is good until it moves. It is not safe for use
// while someone adds.
type DomainSums struct {
	// counted add up; each is multiplied first.
	terms []SumTerm
	// added is what came on top, by domain.
	added map[string]int64
}

// Counted is a part of a Tally.
type SumTerm struct {
	*DomainValues
	Factor int64
}

// NewTally returns a Tally of numbers, which must not be changed any more.
func NewDomainSums(numbers map[string]int64) *DomainSums {
	return DomainSumsOf(fixedDomainValues(numbers))
}

// TallyOf returns a Tally of numbers that somebody keeps.
func DomainSumsOf(numbers *DomainValues) *DomainSums {
	return &DomainSums{terms: []SumTerm{{numbers, 1}}}
}

// Count adds factor times numbers to what was counted.
func (t *DomainSums) AddValues(numbers *DomainValues, factor int64) {
	t.terms = append(t.terms, SumTerm{numbers, factor})
}

// Counted returns the parts of what was counted.
func (t *DomainSums) Terms() []SumTerm { return t.terms }

// Of returns the number of a domain, 0 when it is not listed.
func (t *DomainSums) Get(domain string) int64 {
	n := t.added[domain]
	for i := range t.terms {
		n += t.terms[i].Factor * t.terms[i].Get(domain)
	}
	return n
}

// Add adds n, which may be negative, to a domain, and lists the domain.
func (t *DomainSums) Add(domain string, n int64) {
	if t.added == nil {
		t.added = map[string]int64{}
	}
	t.added[domain] += n
}

// Domains is how many domains are listed. Of a Tally of several parts it is
// the first one's.
func (t *DomainSums) ListedDomains() int {
	if len(t.terms) == 0 {
		return len(t.added)
	}
	n := t.terms[0].ListedDomains()
	for domain := range t.added {
		if !t.terms[0].isListed(domain) {
			n++
		}
	}
	return n
}

// Listed reports whether any domain is listed.
func (t *DomainSums) HasListed() bool {
	for i := range t.terms {
		if t.terms[i].totalListings > 0 {
			return true
		}
	}
	return len(t.added) > 0
}

// Zero reports whether no domain has a number other than 0, for a Tally of one
// part.
func (t *DomainSums) AllZero() bool {
	nonzero := 0
	for i := range t.terms {
		nonzero += t.terms[i].nonzeroDomains
	}
	for domain, n := range t.added {
		switch of := t.Get(domain); {
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
func (t *DomainSums) Min() int64 {
	least := int64(math.MaxInt32)
	for domain := range t.added {
		least = min(least, t.Get(domain))
	}
	if len(t.terms) == 0 || t.terms[0].listedDomains == 0 {
		return least
	}
	n := t.terms[0].DomainValues
	lowest, touched := n.Min(), 0
	for domain := range t.added {
		if n.isListed(domain) && n.Get(domain) == lowest {
			touched++
		}
	}
	if touched < n.minDomains {
		return min(least, lowest)
	}
	for id, listed := range n.listings {
		if _, changed := t.added[n.Domains.names[id]]; listed > 0 && !changed {
			least = min(least, n.values[id])
		}
	}
	return least
}

// Clone returns a Tally with the same numbers that goes its own way.
func (t *DomainSums) Clone() *DomainSums {
	return &DomainSums{terms: t.terms, added: maps.Clone(t.added)}
}

func (n *DomainValues) isListed(domain string) bool {
	id := n.Domains.ID(domain)
	return id != NoDomain && int(id) < len(n.listings) && n.listings[id] > 0
}
