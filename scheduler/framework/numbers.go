package framework

import "math"

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
