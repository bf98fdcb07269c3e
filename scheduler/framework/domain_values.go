package framework

import (
	"maps"
	"math"
)

// Numbers are numbers by domain, as they are in the snapshot: they move with
// it. Whoever reads them again after the snapshot moved asks Current first.
type DomainValues struct {
	Domains *Domains
	// Turn is the turn of the Columns in which the numbers were used last.
	LastQuery uint64

	values   []int64 // by domain
	listings []int32 // how many things put each domain on the list
	// total is the sum of listed, domains how many are listed, nonzero how many
	// have a number other than 0.
	totalListings, listedDomains, nonzeroDomains int

	// least is the lowest number of a listed domain and lowest how many have
	// it; 0 says that they are not known.
	minValue   int64
	minDomains int

	dropped bool
}

// NewNumbers returns numbers of domains that nobody counted in yet.
func NewDomainValues(domains *Domains) *DomainValues { return &DomainValues{Domains: domains} }

// numbersOf are numbers that stay as they are, each domain listed.
func fixedDomainValues(byName map[string]int64) *DomainValues {
	d := newDomains("", false)
	n := NewDomainValues(d)
	for name, number := range byName {
		id := d.addNode(name)
		n.AddListings(id, 1)
		n.Add(id, number)
	}
	n.Drop() // which they are from the beginning: they do not move
	return n
}

// Drop says that the numbers are no longer kept.
func (n *DomainValues) Drop() { n.dropped = true }

// Current reports whether the numbers still move with the snapshot, and counts as
// a use.
func (n *DomainValues) Current() bool {
	current := n.Domains.Current() && !n.dropped
	n.LastQuery = n.Domains.lastQuery
	return current
}

// By returns the number of each domain; domains beyond its end have 0. The
// slice is n's own.
func (n *DomainValues) Values() []int64 { return n.values }

// Of returns the number of a domain by name.
func (n *DomainValues) Get(name string) int64 {
	if id := n.Domains.ID(name); int(id) < len(n.values) {
		return n.values[id]
	}
	return 0
}

// Listed is how many things put domains on the list.
func (n *DomainValues) TotalListings() int { return n.totalListings }

// CountDomains is how many domains are listed.
func (n *DomainValues) ListedDomains() int { return n.listedDomains }

// Least is the lowest number of a listed domain, math.MaxInt32 when none is.
// It takes time proportional to the domains, but seldom: while no domain
// leaves the lowest number last, it is known.
func (n *DomainValues) Min() int64 {
	if n.listedDomains == 0 {
		return math.MaxInt32
	}
	if n.minDomains == 0 {
		n.minValue = math.MaxInt64
		for id, listed := range n.listings {
			if listed > 0 {
				n.addToMin(n.values[id])
			}
		}
	}
	return n.minValue
}

func (n *DomainValues) addToMin(number int64) {
	switch {
	case number < n.minValue:
		n.minValue, n.minDomains = number, 1
	case number == n.minValue:
		n.minDomains++
	}
}

// Shift adds by, which may be negative, to the number of a domain.
func (n *DomainValues) Add(id int32, by int64) {
	n.grow(id)
	before := n.values[id]
	after := before + by
	n.values[id] = after
	switch {
	case before == 0 && after != 0:
		n.nonzeroDomains++
	case before != 0 && after == 0:
		n.nonzeroDomains--
	}
	if n.listings[id] > 0 && n.minDomains > 0 {
		n.removeFromMin(before)
		if n.minDomains > 0 {
			n.addToMin(after)
		}
	}
}

// List adds by, which may be negative, to how many things put a domain on the
// list.
func (n *DomainValues) AddListings(id int32, by int32) {
	n.grow(id)
	before := n.listings[id]
	n.listings[id] = before + by
	n.totalListings += int(by)
	switch after := before + by; {
	case before == 0 && after != 0:
		n.listedDomains++
		if n.minDomains > 0 {
			n.addToMin(n.values[id])
		}
	case before != 0 && after == 0:
		n.listedDomains--
		n.removeFromMin(n.values[id])
	}
}

// forget says that a domain no longer has this number.
func (n *DomainValues) removeFromMin(number int64) {
	if n.minDomains > 0 && number == n.minValue {
		n.minDomains--
	}
}

func (n *DomainValues) grow(id int32) {
	for len(n.values) <= int(id) {
		n.values, n.listings = append(n.values, 0), append(n.listings, 0)
	}
}

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
