package allocation

import (
	"context"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"

	"github.com/berthdev/berth/scheduler/framework"
)

// countLimit is the number of devices above which CountDevices returns nil: a message must
// not stop the loop.
const countLimit = 200_000

// CountDevices is as in framework.DeviceAllocator. Claim is the namespace and name of the
// claim.
func (a *Allocator) CountDevices(ctx context.Context, node *v1.Node, claims []*resourceapi.ResourceClaim) (all []framework.DeviceCounts) {
	p, pools := a.planOf(claims), a.poolsOf(node)
	published := 0
	for _, pool := range pools.pools {
		published += len(pool.devices)
	}
	if p.needsReference || published > countLimit {
		return nil
	}
	s := &search{ctx: ctx, node: node, allocated: &a.options.Allocated, pools: pools}
	s.reset(p)
	for i := range p.claims {
		for j := range p.claims[i].requests {
			r := &p.claims[i].requests[j]
			for k := range r.alternatives {
				all = append(all, s.count(r, &r.alternatives[k]))
			}
		}
	}
	return all
}

// poolsOf returns the pools of a node, or all for nil.
func (a *Allocator) poolsOf(node *v1.Node) *nodePools {
	if node != nil {
		return a.options.Index.gather(a.view, node, &a.last)
	}
	all := &nodePools{}
	a.view.pools.each(func(_ poolID, p *poolSlices) {
		var newest []*deviceSlice
		for _, s := range p.slices {
			if s.api.Spec.Pool.Generation == p.newest && !s.ignored {
				newest = append(newest, s)
			}
		}
		if len(newest) > 0 {
			all.pools = append(all.pools, p.seenBy(newest))
		}
	})
	return all
}

// count returns what an alternative finds in the pools of s.
func (s *search) count(r *requestPlan, a *alternative) framework.DeviceCounts {
	c := framework.DeviceCounts{Claim: klog.KObj(a.claim.claim).String(), Request: r.name, Class: a.className, Wanted: a.count}
	if r.firstAvailable {
		c.Alternative = a.name
	}
	if a.wantsAll {
		c.Wanted = 0
	}
	for i := range a.selectors {
		c.Selectors = append(c.Selectors, framework.DeviceSelectorCount{OfClass: a.selectors[i].ofClass, Expression: a.selectors[i].expression.text})
	}
	for i, p := range s.pools.pools {
		if p.incomplete || p.invalid {
			continue
		}
		for _, d := range p.devices {
			s.countDevice(&c, a, d, i)
		}
	}
	return c
}

// countDevice adds a device of a pool, given by its place, to c.
func (s *search) countDevice(c *framework.DeviceCounts, a *alternative, d *device, pool int) {
	if s.node != nil && d.node != nil {
		if offered, err := d.node.matches(s.node); err != nil || !offered {
			return
		}
	}
	c.Published++
	for i := range a.selectors {
		expression := a.selectors[i].expression
		if expression.compiled.Error != nil {
			return
		}
		if match, err := expression.matches(s.ctx, d); err != nil || !match {
			return
		}
		c.Selectors[i].Devices++
	}
	if a.err != nil {
		return
	}
	h := s.heldIn(pool).of(d.id.Device)
	if h.Exclusive && !a.admin {
		return
	}
	if free, err := s.hasRoom(a, d, h, pool); err == nil && free {
		c.Free++
	}
}
