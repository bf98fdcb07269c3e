package counts

import (
	"maps"
	"math"
	"slices"
)

// DomainValues are numbers by topology domain, which are updated with the
// snapshot. Who keeps them over an update of the snapshot must call Current
// before reading them again.
type DomainValues struct {
	Domains *Domains
	// LastQuery is the number of the last query of the Columns that used the
	// values.
	LastQuery uint64

	values   []int64 // by domain
	listings []int32 // by domain: how many items list the domain
	// totalListings is the sum of listings, listedDomains the number of listed
	// domains, nonzeroDomains that of domains with a value other than 0.
	totalListings, listedDomains, nonzeroDomains int

	// minValue is the lowest value of a listed domain, and minDomains the
	// number of listed domains with that value; 0 means that both are unknown.
	minValue   int64
	minDomains int

	dropped bool
}

// NewDomainValues returns values without any listed domain.
func NewDomainValues(domains *Domains) *DomainValues { return &DomainValues{Domains: domains} }

// WithSameListings returns values that list the domains that n lists, all 0. It
// takes less time than adding the listings again.
func (n *DomainValues) WithSameListings() *DomainValues {
	return &DomainValues{
		Domains: n.Domains, values: make([]int64, len(n.values)), listings: slices.Clone(n.listings),
		totalListings: n.totalListings, listedDomains: n.listedDomains,
	}
}

// fixedDomainValues returns values that are not updated with a snapshot. Every
// domain is listed.
func fixedDomainValues(byName map[string]int64) *DomainValues {
	d := newDomains("", false)
	n := NewDomainValues(d)
	for name, number := range byName {
		id := d.addNode(name)
		n.AddListings(id, 1)
		n.Add(id, number)
	}
	n.Drop() // they are not updated
	return n
}

// Drop marks the values as no longer updated.
func (n *DomainValues) Drop() { n.dropped = true }

// Current reports whether the values are still updated with the snapshot, and
// counts as a use of them.
func (n *DomainValues) Current() bool {
	current := n.Domains.Current() && !n.dropped
	n.LastQuery = n.Domains.lastQuery
	return current
}

// Values returns the values by domain. Domains beyond the end have 0. The
// caller must not change the slice.
func (n *DomainValues) Values() []int64 { return n.values }

// Get returns the value of a domain by name.
func (n *DomainValues) Get(name string) int64 {
	if id := n.Domains.ID(name); int(id) < len(n.values) {
		return n.values[id]
	}
	return 0
}

// ListedDomains is the number of listed domains.
func (n *DomainValues) ListedDomains() int { return n.listedDomains }

// Min is the lowest value of a listed domain, math.MaxInt32 if none is listed.
// The value is cached; only after the last domain with the lowest value changed
// does the call visit all domains.
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

// Add adds by, which may be negative, to the value of a domain.
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

// AddListings adds by, which may be negative, to the number of items that list
// a domain.
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

// removeFromMin updates the cached minimum for a domain that no longer has this
// value.
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

// DomainSums are sums by topology domain: shared DomainValues times a factor
// each, plus numbers that only this value and its later clones hold. The
// DomainValues may be updated with the snapshot; then the sums are valid until
// that update. Not safe for concurrent use with Add.
type DomainSums struct {
	// terms are the shared values.
	terms []SumTerm
	// added are the numbers of this value alone.
	added map[string]int64
}

// SumTerm is DomainValues with a factor.
type SumTerm struct {
	*DomainValues
	Factor int64
}

// NewDomainSums returns sums over numbers, which the caller must not change
// afterwards.
func NewDomainSums(values map[string]int64) *DomainSums {
	return DomainSumsOf(fixedDomainValues(values))
}

// DomainSumsOf returns sums over shared values.
func DomainSumsOf(values *DomainValues) *DomainSums {
	return &DomainSums{terms: []SumTerm{{values, 1}}}
}

// AddValues adds factor times numbers.
func (t *DomainSums) AddValues(values *DomainValues, factor int64) {
	t.terms = append(t.terms, SumTerm{values, factor})
}

// Terms returns the shared values with their factors.
func (t *DomainSums) Terms() []SumTerm { return t.terms }

// Get returns the sum for a domain, 0 if it is not listed.
func (t *DomainSums) Get(domain string) int64 {
	n := t.added[domain]
	for i := range t.terms {
		n += t.terms[i].Factor * t.terms[i].Get(domain)
	}
	return n
}

// Add adds n, which may be negative, to a domain and lists it.
func (t *DomainSums) Add(domain string, n int64) {
	if t.added == nil {
		t.added = map[string]int64{}
	}
	t.added[domain] += n
}

// ListedDomains is the number of listed domains. Only the first term is
// considered.
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

// HasListed reports whether any domain is listed.
func (t *DomainSums) HasListed() bool {
	for i := range t.terms {
		if t.terms[i].totalListings > 0 {
			return true
		}
	}
	return len(t.added) > 0
}

// AllZero reports whether every domain has the sum 0, for sums of one term.
func (t *DomainSums) AllZero() bool {
	nonzero := 0
	for i := range t.terms {
		nonzero += t.terms[i].nonzeroDomains
	}
	for domain, n := range t.added {
		switch of := t.Get(domain); {
		case of != n && of == 0:
			nonzero-- // the term's value is compensated
		case of == n && n != 0:
			nonzero++
		}
	}
	return nonzero == 0
}

// Min is the lowest sum of a listed domain, math.MaxInt32 if none is listed,
// for sums of one term. It visits the added domains, and all domains only if
// the added ones include every domain with the lowest value.
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

// Clone returns independent sums with the same numbers.
func (t *DomainSums) Clone() *DomainSums {
	return &DomainSums{terms: t.terms, added: maps.Clone(t.added)}
}

// CloneAll clones each of sums with clone.
func CloneAll(sums []*DomainSums, clone func(*DomainSums) *DomainSums) []*DomainSums {
	clones := make([]*DomainSums, len(sums))
	for i, sum := range sums {
		clones[i] = clone(sum)
	}
	return clones
}

// Detached returns a clone that stays valid when the snapshot changes.
func (t *DomainSums) Detached() *DomainSums {
	clone := t.Clone()
	clone.terms = slices.Clone(t.terms)
	for i := range clone.terms {
		values := *clone.terms[i].DomainValues
		values.values, values.listings = slices.Clone(values.values), slices.Clone(values.listings)
		values.Drop()
		clone.terms[i].DomainValues = &values
	}
	return clone
}

func (n *DomainValues) isListed(domain string) bool {
	id := n.Domains.ID(domain)
	return id != NoDomain && int(id) < len(n.listings) && n.listings[id] > 0
}
