package allocation

import (
	"fmt"

	"k8s.io/klog/v2"
)

// take adds a device to the solution, if the devices chosen so far leave it, its counters
// and its capacity, and constraints allow it. The error is the option's; or it says that a
// constraint excludes a device from a request for all.
func (s *search) take(claim int, a *alternative, o *option) (bool, error) {
	if err := s.countTry(a); err != nil {
		return false, err
	}
	d := o.device
	if s.isChosen(d, claim, a.admin) {
		return false, nil
	}
	if o.err != nil {
		return false, o.err
	}
	if d.plain && !a.wantsAll {
		return s.takeCounted(claim, a, d, nil, false)
	}
	held := s.heldIn(o.pool)
	h := held.of(d.id.Device)
	if a.wantsAll && h.Exclusive && !a.admin {
		return false, nil
	}
	p := s.pools.pools[o.pool]
	counted := len(d.api.ConsumesCounters) > 0 && !(d.shareable && (h.Shares > 0 || h.Capacity != nil || s.isShared(d)))
	if counted && !s.reserveCounters(p, held, d) {
		return false, nil
	}
	taken, err := s.takeCounted(claim, a, d, &h, counted)
	if !taken && counted {
		s.releaseCounters(p, d)
	}
	return taken, err
}

// takeCounted is take after counters were reserved. h may be nil for a device that the
// options know to be usable and that is not shareable.
func (s *search) takeCounted(claim int, a *alternative, d *device, h *Holding, counted bool) (bool, error) {
	if a.wantsAll && !a.toleratesTaintsOf(d) {
		return false, nil
	}
	if !s.addValues(claim, a, d) {
		if a.wantsAll {
			return false, fmt.Errorf("claim %s, request %s: cannot add device %s because a claim constraint would not be satisfied", klog.KObj(a.claim.claim), a.name, d.id)
		}
		return false, nil
	}
	c := choice{alternative: a, device: d, claim: claim, counted: counted}
	if d.shareable || a.wantsAll && h.Capacity != nil {
		list, complete, err := consumptionsOf(nil, a.capacity, d)
		if err != nil || !complete || !fitsInto(list, d, h.Capacity, s.chosen) {
			s.removeValues(claim, a, len(a.constraints))
			return false, err
		}
		if d.shareable {
			c.consumed = list
		}
	}
	s.chosen = append(s.chosen, c)
	s.counts[claim]++
	return true, nil
}

// giveBack removes the last device from the solution.
func (s *search) giveBack() {
	last := len(s.chosen) - 1
	c := s.chosen[last]
	s.chosen = s.chosen[:last]
	s.counts[c.claim]--
	s.removeValues(c.claim, c.alternative, len(c.alternative.constraints))
	if c.counted {
		s.releaseCounters(s.poolOf(c.device), c.device)
	}
}

// poolOf returns the pool of a chosen device.
func (s *search) poolOf(d *device) *pool {
	for _, p := range s.pools.pools {
		if p.id == d.slice.pool {
			return p
		}
	}
	return nil
}

// isChosen reports whether a device is part of the solution, with admin access only
// whether it is so for the same claim. A device that can be shared stays available.
func (s *search) isChosen(d *device, claim int, admin bool) bool {
	if d.shareable {
		return false
	}
	for i := range s.chosen {
		if s.chosen[i].device == d && (!admin || s.chosen[i].claim == claim) {
			return true
		}
	}
	return false
}

// isShared reports whether the solution has a share of a device.
func (s *search) isShared(d *device) bool {
	for i := range s.chosen {
		if s.chosen[i].device == d {
			return true
		}
	}
	return false
}

// addValues adds a device's attributes to those that constraints compare. It returns
// false, and adds nothing, if a constraint is not satisfied.
func (s *search) addValues(claim int, a *alternative, d *device) bool {
	for n, i := range a.constraints {
		c := &a.claim.constraints[i]
		value := c.attributeOf(d)
		if value == nil || !c.allows(value, s.values[claim][i]) {
			s.removeValues(claim, a, n)
			return false
		}
		s.values[claim][i] = append(s.values[claim][i], value)
	}
	return true
}

// removeValues removes the last device's attributes from the first constraints of an
// alternative.
func (s *search) removeValues(claim int, a *alternative, constraints int) {
	for _, i := range a.constraints[:constraints] {
		values := s.values[claim][i]
		s.values[claim][i] = values[:len(values)-1]
	}
}

// isInVain reports whether a request cannot get its devices whatever the others get, or the
// requests together want more devices than there are. It says no where an error may end
// the search.
func (s *search) isInVain() bool {
	if s.plan.mayViolateAll {
		return false
	}
	m := matching{takers: map[*device]int{}}
	defer func() { s.proofSteps = m.steps }()
	for i := range s.plan.claims {
		for j := range s.plan.claims[i].requests {
			r := &s.plan.claims[i].requests[j]
			possible := false
			for k := range r.alternatives {
				a := &r.alternatives[k]
				o := &s.options[a.number]
				for !o.exhausted {
					s.extend(a, o)
				}
				if o.failing {
					return false
				}
				possible = possible || s.isPossible(a, o)
				if !r.firstAvailable && !a.admin {
					m.add(a, o)
				}
			}
			m.impossible = m.impossible || !possible
		}
	}
	return m.impossible || !m.exists()
}

// isPossible reports whether an alternative may get what it needs if it is the only one.
func (s *search) isPossible(a *alternative, o *options) bool {
	if !a.wantsAll {
		return o.count <= len(o.list)
	}
	for i := range o.list {
		// Errors were found before, and would not be there.
		if usable, err := s.isUsable(a, o.list[i].device, o.list[i].pool); !usable && err == nil {
			return false
		}
	}
	return o.count > 0
}

// matching gives devices to the requests that need a certain number of them exclusively.
type matching struct {
	// wanted are the devices that each needed device may be.
	wanted [][]*device
	// takers are the places in wanted by the device that they get.
	takers map[*device]int
	// impossible says that a request cannot get what it needs.
	impossible bool
	// steps is how many devices were looked at.
	steps int
}

// add adds the devices that an alternative needs. Those that can be shared are there for
// each request.
func (m *matching) add(a *alternative, o *options) {
	needed := o.count
	var exclusive []*device
	for i := range o.list {
		if d := o.list[i].device; d.shareable {
			needed--
		} else {
			exclusive = append(exclusive, d)
		}
	}
	if a.wantsAll {
		for i := range exclusive {
			m.wanted = append(m.wanted, exclusive[i:i+1])
		}
		return
	}
	for range needed {
		m.wanted = append(m.wanted, exclusive)
	}
}

// exists reports whether each needed device can be a different one.
func (m *matching) exists() bool {
	for i := range m.wanted {
		if !m.give(i, map[*device]bool{}) {
			return false
		}
	}
	return true
}

// give gives a device to a place, and other devices to those that had it, without those
// in tried.
func (m *matching) give(place int, tried map[*device]bool) bool {
	m.steps += len(m.wanted[place])
	// Most requests select the same devices: to move those that are taken would take a time
	// that grows with the third power of their number.
	for _, d := range m.wanted[place] {
		if _, taken := m.takers[d]; !taken {
			m.takers[d] = place
			return true
		}
	}
	for _, d := range m.wanted[place] {
		if tried[d] {
			continue
		}
		tried[d] = true
		if m.give(m.takers[d], tried) {
			m.takers[d] = place
			return true
		}
	}
	return false
}
