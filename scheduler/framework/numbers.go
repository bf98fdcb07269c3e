package framework

import "math"

// Numbers are numbers by domain, as they are in the snapshot: they move with
// it. Whoever reads them again after the snapshot moved asks Current first.
type Numbers struct {
	Domains *Domains
	// Turn is the turn of the Columns in which the numbers were used last.
	Turn uint64

	by     []int64 // by domain
	listed []int32 // how many things put each domain on the list
	// total is the sum of listed, domains how many are listed, nonzero how many
	// have a number other than 0.
	total, domains, nonzero int

	// least is the lowest number of a listed domain and lowest how many have
	// it; 0 says that they are not known.
	least  int64
	lowest int

	dropped bool
}

// NewNumbers returns numbers of domains that nobody counted in yet.
func NewNumbers(domains *Domains) *Numbers { return &Numbers{Domains: domains} }

// numbersOf are numbers that stay as they are, each domain listed.
func numbersOf(byName map[string]int64) *Numbers {
	d := newDomains("", false)
	n := NewNumbers(d)
	for name, number := range byName {
		id := d.enter(name)
		n.List(id, 1)
		n.Shift(id, number)
	}
	n.Drop() // which they are from the beginning: they do not move
	return n
}

// Drop says that the numbers are no longer kept.
func (n *Numbers) Drop() { n.dropped = true }

// Current reports whether the numbers still move with the snapshot, and counts as
// a use.
func (n *Numbers) Current() bool {
	current := n.Domains.Current() && !n.dropped
	n.Turn = n.Domains.used
	return current
}

// By returns the number of each domain; domains beyond its end have 0. The
// slice is n's own.
func (n *Numbers) By() []int64 { return n.by }

// Of returns the number of a domain by name.
func (n *Numbers) Of(name string) int64 {
	if id := n.Domains.ID(name); int(id) < len(n.by) {
		return n.by[id]
	}
	return 0
}

// Listed is how many things put domains on the list.
func (n *Numbers) Listed() int { return n.total }

// CountDomains is how many domains are listed.
func (n *Numbers) CountDomains() int { return n.domains }

// Least is the lowest number of a listed domain, math.MaxInt32 when none is.
// It takes time proportional to the domains, but seldom: while no domain
// leaves the lowest number last, it is known.
func (n *Numbers) Least() int64 {
	if n.domains == 0 {
		return math.MaxInt32
	}
	if n.lowest == 0 {
		n.least = math.MaxInt64
		for id, listed := range n.listed {
			if listed > 0 {
				n.consider(n.by[id])
			}
		}
	}
	return n.least
}

func (n *Numbers) consider(number int64) {
	switch {
	case number < n.least:
		n.least, n.lowest = number, 1
	case number == n.least:
		n.lowest++
	}
}

// Shift adds by, which may be negative, to the number of a domain.
func (n *Numbers) Shift(id int32, by int64) {
	n.reach(id)
	before := n.by[id]
	after := before + by
	n.by[id] = after
	switch {
	case before == 0 && after != 0:
		n.nonzero++
	case before != 0 && after == 0:
		n.nonzero--
	}
	if n.listed[id] > 0 && n.lowest > 0 {
		n.forget(before)
		if n.lowest > 0 {
			n.consider(after)
		}
	}
}

// List adds by, which may be negative, to how many things put a domain on the
// list.
func (n *Numbers) List(id int32, by int32) {
	n.reach(id)
	before := n.listed[id]
	n.listed[id] = before + by
	n.total += int(by)
	switch after := before + by; {
	case before == 0 && after != 0:
		n.domains++
		if n.lowest > 0 {
			n.consider(n.by[id])
		}
	case before != 0 && after == 0:
		n.domains--
		n.forget(n.by[id])
	}
}

// forget says that a domain no longer has this number.
func (n *Numbers) forget(number int64) {
	if n.lowest > 0 && number == n.least {
		n.lowest--
	}
}

func (n *Numbers) reach(id int32) {
	for len(n.by) <= int(id) {
		n.by, n.listed = append(n.by, 0), append(n.listed, 0)
	}
}
