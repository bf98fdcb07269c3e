package allocation

import (
	"encoding/json"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

const (
	// shapesPerPool is for how many shapes of requests each pool keeps its usable devices.
	shapesPerPool = 4
	// shapeLimit is the number of shapes after which those that are not used any more are
	// forgotten.
	shapeLimit = 256
)

// shape is what decides which devices an alternative may get. Alternatives that are equal
// in that have the same one.
type shape struct{ _ byte }

// usableDevices are devices of a pool that alternatives of one shape may get while claims
// hold certain devices. They do not change.
type usableDevices struct {
	shape *shape
	// part is where held comes from.
	part *part[poolID, *poolHoldings]
	held *poolHoldings
	// devices are the usable ones before the place next, in the order of the search. If
	// failing is set, the device at next has an error.
	devices []*device
	next    int
	failing bool
}

// usableIn returns at least one more usable device of a pool than are known, unless there
// is none, or an error comes first.
func (s *search) usableIn(a *alternative, pool, known int) *usableDevices {
	p := s.pools.pools[pool]
	place := p.usableFor(a.shape)
	var u *usableDevices
	if place >= 0 {
		u = p.usable[place].Load()
	}
	part := s.allocated.pools.at(p.hash)
	if u == nil || u.shape != a.shape || u.part != part {
		held, _ := part.get(p.id)
		next := &usableDevices{shape: a.shape, part: part, held: held}
		if u != nil && u.shape == a.shape && u.held == held {
			next.devices, next.next, next.failing = u.devices, u.next, u.failing
		}
		u = next
		if place < 0 {
			place = int(p.usableSet.Add(1) % shapesPerPool)
		}
		p.usable[place].Store(u)
	}
	// Those of a shape that was replaced meanwhile start anew.
	for known >= len(u.devices) && !u.failing && u.next < len(p.devices) {
		u = s.extended(a, pool, u)
		if s.ctx.Err() == nil {
			p.usable[place].Store(u)
		}
	}
	return u
}

// usableFor returns the place of the usable devices for a shape, -1 if there are none.
func (p *pool) usableFor(shape *shape) int {
	for i := range p.usable {
		if u := p.usable[i].Load(); u != nil && u.shape == shape {
			return i
		}
	}
	return -1
}

// extended returns u with one more device.
func (s *search) extended(a *alternative, pool int, u *usableDevices) *usableDevices {
	p := s.pools.pools[pool]
	next := *u
	for ; next.next < len(p.devices); next.next++ {
		d := p.devices[next.next]
		usable, err := s.isUsable(a, d, pool)
		if err != nil {
			next.failing = true
			break
		}
		if usable {
			next.devices = append(slices.Clip(next.devices), d)
			next.next++
			break
		}
	}
	return &next
}

// shapes are the shapes in use. It is safe for concurrent use.
type shapes struct{ byDescription recentCache[*shape] }

// of returns the shape of an alternative.
func (x *shapes) of(a *alternative) *shape {
	description := struct {
		Expressions []*string
		Admin       bool
		Tolerations []resourceapi.DeviceToleration
		Capacity    string
	}{Admin: a.admin, Tolerations: a.tolerations}
	if a.capacity != nil {
		// The memory of quantities, since equal ones may differ for a policy: see violates.
		description.Capacity = fmt.Sprintf("%+v", a.capacity.Requests)
	}
	for i := range a.selectors {
		description.Expressions = append(description.Expressions, &a.selectors[i].expression.text)
	}
	key, err := json.Marshal(description)
	if err != nil {
		return &shape{}
	}
	return x.byDescription.get(string(key), func() *shape { return &shape{} })
}
