package allocation

import (
	"k8s.io/apimachinery/pkg/api/resource"
)

// counterName identifies a counter of a pool.
type counterName struct{ set, counter string }

// counterTable are the counters of a pool. It does not change.
type counterTable struct {
	// totals are the values of all counters.
	totals []resource.Quantity
	// uses are what each device consumes that consumes counters.
	uses map[*device][]counterUse
}

// counterUse is what a device consumes of a counter, given by its place in totals.
type counterUse struct {
	counter int
	value   resource.Quantity
}

// availableCounters are what the held devices of a pool leave of its counters.
type availableCounters struct {
	held   *poolHoldings
	values []resource.Quantity
}

// hasValidCounters reports whether each counter that a device of the pool consumes exists,
// also of devices that the node does not get.
func (p *pool) hasValidCounters() bool {
	counters := map[counterName]bool{}
	sets := map[string]bool{}
	for _, set := range p.sets {
		sets[set.Name] = true
		for name := range set.Counters {
			counters[counterName{set.Name, name}] = true
		}
	}
	for _, s := range p.all {
		for i := range s.devices {
			for j := range s.devices[i].api.ConsumesCounters {
				consumed := &s.devices[i].api.ConsumesCounters[j]
				if !sets[consumed.CounterSet] {
					return false
				}
				for name := range consumed.Counters {
					if !counters[counterName{consumed.CounterSet, name}] {
						return false
					}
				}
			}
		}
	}
	return true
}

// newCounterTable returns the counters of a valid pool.
func newCounterTable(p *pool) *counterTable {
	t := &counterTable{uses: map[*device][]counterUse{}}
	places := map[counterName]int{}
	for _, set := range p.sets {
		for name, counter := range set.Counters {
			places[counterName{set.Name, name}] = len(t.totals)
			t.totals = append(t.totals, counter.Value.DeepCopy())
		}
	}
	for _, s := range p.all {
		for i := range s.devices {
			d := &s.devices[i]
			for j := range d.api.ConsumesCounters {
				consumed := &d.api.ConsumesCounters[j]
				for name, counter := range consumed.Counters {
					t.uses[d] = append(t.uses[d], counterUse{places[counterName{consumed.CounterSet, name}], counter.Value.DeepCopy()})
				}
			}
		}
	}
	return t
}

// availableWith returns what is left of the counters while claims hold devices. A value
// may be negative.
func (p *pool) availableWith(held *poolHoldings) []resource.Quantity {
	if cached := p.available.Load(); cached != nil && cached.held == held {
		return cached.values
	}
	counters := p.counters()
	values := make([]resource.Quantity, len(counters.totals))
	for i := range values {
		values[i] = counters.totals[i].DeepCopy()
	}
	for d, uses := range counters.uses {
		if h := held.of(d.id.Device); h.isFree() {
			continue
		}
		for _, use := range uses {
			values[use.counter].Sub(use.value)
		}
	}
	p.available.Store(&availableCounters{held: held, values: values})
	return values
}

// hasCountersFor reports whether the counters of a pool are enough for a device if no other
// device is chosen. Where shares may be charged already it says yes.
func (s *search) hasCountersFor(d *device, pool int) bool {
	if len(d.api.ConsumesCounters) == 0 || d.shareable {
		return true
	}
	p := s.pools.pools[pool]
	consumed := map[int]*resource.Quantity{}
	for _, use := range p.counters().uses[d] {
		if use.value.Sign() < 0 {
			return true
		}
		if consumed[use.counter] == nil {
			consumed[use.counter] = &resource.Quantity{}
		}
		consumed[use.counter].Add(use.value)
	}
	for i, available := range p.availableWith(s.heldIn(pool)) {
		if value := consumed[i]; available.Sign() < 0 || value != nil && available.Cmp(*value) < 0 {
			return false
		}
	}
	return true
}

// reserveCounters adds what a device consumes to what the devices chosen so far do. It
// returns false, and adds nothing, if a counter of the pool has less than that: any
// counter, also one that the device does not consume.
func (s *search) reserveCounters(p *pool, held *poolHoldings, d *device) bool {
	available := p.availableWith(held)
	consumed := s.consumed[p]
	if consumed == nil {
		consumed = make([]resource.Quantity, len(available))
		if s.consumed == nil {
			s.consumed = map[*pool][]resource.Quantity{}
		}
		s.consumed[p] = consumed
	}
	for _, use := range p.counters().uses[d] {
		consumed[use.counter].Add(use.value)
	}
	for i := range available {
		if available[i].Cmp(consumed[i]) < 0 {
			s.releaseCounters(p, d)
			return false
		}
	}
	return true
}

func (s *search) releaseCounters(p *pool, d *device) {
	consumed := s.consumed[p]
	for _, use := range p.counters().uses[d] {
		consumed[use.counter].Sub(use.value)
	}
}
