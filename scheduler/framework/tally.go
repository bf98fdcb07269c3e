package framework

import (
	"maps"
	"math"
)

// Tally is numbers by domain, and what somebody adds to them for himself: the
// numbers as they were counted are shared between clones and never change. It
// is not safe for use while someone adds.
type Tally struct {
	counted *counted
	// added is what came on top, by domain.
	added map[string]int64
	// nonzero is how many domains have a number other than 0.
	nonzero int
}

// counted is what a Tally starts from.
type counted struct {
	by map[string]int64
	// lowest are two domains with the lowest numbers, the lower one first:
	// while at most one domain changes, one of them still tells the minimum.
	lowest []string
}

// NewTally returns a Tally of numbers, which must not be changed any more.
func NewTally(numbers map[string]int64) *Tally {
	t := &Tally{counted: &counted{by: numbers}}
	for domain, n := range numbers {
		if n != 0 {
			t.nonzero++
		}
		t.counted.consider(domain, n)
	}
	return t
}

func (c *counted) consider(domain string, n int64) {
	switch low := c.lowest; {
	case len(low) == 0:
		c.lowest = append(make([]string, 0, 2), domain)
	case n < c.by[low[0]]:
		c.lowest = append(low[:0], domain, low[0])
	case len(low) == 1:
		c.lowest = append(low, domain)
	case n < c.by[low[1]]:
		low[1] = domain
	}
}

// Of returns the number of a domain, 0 when it is not listed.
func (t *Tally) Of(domain string) int64 { return t.counted.by[domain] + t.added[domain] }

// Add adds n, which may be negative, to a domain, and lists the domain.
func (t *Tally) Add(domain string, n int64) {
	before := t.Of(domain)
	if t.added == nil {
		t.added = map[string]int64{}
	}
	t.added[domain] += n
	switch after := before + n; {
	case before == 0 && after != 0:
		t.nonzero++
	case before != 0 && after == 0:
		t.nonzero--
	}
}

// Domains is how many domains are listed.
func (t *Tally) Domains() int {
	n := len(t.counted.by)
	for domain := range t.added {
		if _, listed := t.counted.by[domain]; !listed {
			n++
		}
	}
	return n
}

// Zero reports whether no domain has a number other than 0.
func (t *Tally) Zero() bool { return t.nonzero == 0 }

// Least is the smallest number of a listed domain, math.MaxInt32 when none is
// listed. It takes time proportional to what was added, and more only where
// that touched several domains.
func (t *Tally) Least() int64 {
	least := int64(math.MaxInt32)
	for domain := range t.added {
		least = min(least, t.Of(domain))
	}
	for _, domain := range t.counted.lowest {
		if _, changed := t.added[domain]; !changed {
			return min(least, t.counted.by[domain])
		}
	}
	for domain := range t.counted.by {
		least = min(least, t.Of(domain))
	}
	return least
}

// Clone returns a Tally with the same numbers that goes its own way.
func (t *Tally) Clone() *Tally {
	clone := *t
	clone.added = maps.Clone(t.added)
	return &clone
}
