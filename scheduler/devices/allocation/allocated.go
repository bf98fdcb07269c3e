package allocation

import (
	draapi "k8s.io/dynamic-resource-allocation/api"
	"k8s.io/dynamic-resource-allocation/structured"
)

// Holding is what claims hold of one device. The zero Holding is a free device.
type Holding struct {
	// Exclusive says that a claim holds the whole device.
	Exclusive bool
	// Shares is the number of shares that claims hold.
	Shares int
	// Capacity is what the shares consume together; nil if they consume none. It is not
	// changed later.
	Capacity structured.ConsumedCapacity
}

func (h *Holding) isFree() bool { return !h.Exclusive && h.Shares == 0 && h.Capacity == nil }

// Allocated is what claims hold at one moment. It does not change, and is safe for
// concurrent use; With returns what holds after a change, at a cost that does not depend on
// how many other devices are held. The zero Allocated is a cluster without claims.
type Allocated struct {
	pools table[poolID, *poolHoldings]
}

// poolHoldings are the held devices of one pool. It does not change, so that what was
// computed from it is valid as long as the pointer is the same.
type poolHoldings struct {
	devices table[draapi.UniqueString, Holding]
}

// With returns a with another Holding of one device.
func (a Allocated) With(id structured.DeviceID, h Holding) Allocated {
	key := poolID{id.Driver, id.Pool}
	var after poolHoldings
	if before, found := a.pools.get(key); found {
		after = *before
	}
	if h.isFree() {
		after.devices = after.devices.without(id.Device)
	} else {
		after.devices = after.devices.with(id.Device, h)
	}
	if after.devices.count == 0 {
		return Allocated{a.pools.without(key)}
	}
	return Allocated{a.pools.with(key, &after)}
}

// in returns the held devices of a pool, nil if there are none.
func (a *Allocated) in(id poolID) *poolHoldings {
	holdings, _ := a.pools.get(id)
	return holdings
}

func (p *poolHoldings) of(device draapi.UniqueString) Holding {
	if p == nil {
		return Holding{}
	}
	h, _ := p.devices.get(device)
	return h
}
