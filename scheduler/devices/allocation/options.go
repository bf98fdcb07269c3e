package allocation

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
)

// options are the devices that an alternative may get, as far as they have been looked
// for: free, selected, with enough capacity and without taints that are not tolerated.
type options struct {
	// count is how many devices the alternative needs.
	count int
	list  []option
	// pool is where the search goes on, with the device after known ones of its usable
	// devices; or, if device is set, with that place and without usable devices.
	pool, known, device int
	// exhausted says that there are no more, failing that one of list has an error.
	exhausted, failing bool
}

// option is one device that an alternative may get.
type option struct {
	device *device
	// pool is the place of the device's pool among those of the node.
	pool int
	// err is the error of the device's evaluation, which ends the search when it gets
	// there.
	err error
}

func (o *options) reset() { *o = options{list: o.list[:0], device: unset} }

// unset is no place of a device.
const unset = -1

// cannotGive reports whether fewer devices are left from a place on than are missing. An
// option with an error does not count as too few: the search has to get there.
func (o *options) cannotGive(missing, from int) bool {
	return o.exhausted && !o.failing && len(o.list)-from < missing
}

// extend looks for one more option.
func (s *search) extend(a *alternative, o *options) {
	for ; o.pool < len(s.pools.pools); o.pool, o.known, o.device = o.pool+1, 0, unset {
		p := s.pools.pools[o.pool]
		if p.incomplete || p.invalid {
			continue
		}
		if o.device == unset && !p.perDevice {
			u := s.usableIn(a, o.pool, o.known)
			if o.known < len(u.devices) {
				o.list = append(o.list, option{device: u.devices[o.known], pool: o.pool})
				o.known++
				return
			}
			if u.next == len(p.devices) {
				continue
			}
			o.device = u.next // where an error is
		}
		for o.device = max(o.device, 0); o.device < len(p.devices); {
			d := p.devices[o.device]
			o.device++
			usable, err := s.isUsable(a, d, o.pool)
			if !usable && err == nil {
				continue
			}
			o.list = append(o.list, option{d, o.pool, err})
			o.failing = o.failing || err != nil
			return
		}
	}
	o.exhausted = true
}

// isUsable reports whether an alternative may get a device, apart from what other devices
// are chosen.
func (s *search) isUsable(a *alternative, d *device, pool int) (bool, error) {
	h := s.heldIn(pool).of(d.id.Device)
	if h.Exclusive && !a.admin {
		return false, nil
	}
	if selected, err := s.isSelected(a, d); !selected {
		return false, err
	}
	return s.hasRoom(a, d, h, pool)
}

// hasRoom reports whether a device has the capacity and counters for an alternative, and no
// taint that it does not tolerate.
func (s *search) hasRoom(a *alternative, d *device, h Holding, pool int) (bool, error) {
	if !d.wholeCapacity || a.capacity != nil || h.Capacity != nil {
		list, complete, err := consumptionsOf(s.scratch[:0], a.capacity, d)
		s.scratch = list
		if err != nil {
			return false, fmt.Errorf("claim %s, request %s: checking capacity for device %s: %w", klog.KObj(a.claim.claim), a.name, d.id, err)
		}
		if !complete || !fitsInto(list, d, h.Capacity, nil) {
			return false, nil
		}
	}
	return a.toleratesTaintsOf(d) && s.hasCountersFor(d, pool), nil
}

func (s *search) heldIn(pool int) *poolHoldings {
	held := &s.held[pool]
	if !held.known {
		held.known, held.holdings = true, s.allocated.in(s.pools.pools[pool].id)
	}
	return held.holdings
}

// isSelected reports whether the class and the request select a device, and the device the
// node.
func (s *search) isSelected(a *alternative, d *device) (bool, error) {
	for i := range a.selectors {
		selector := &a.selectors[i]
		if compileError := selector.expression.compiled.Error; compileError != nil {
			return false, fmt.Errorf("%s: selector #%d: CEL compile error: %w", selector.owner(a), selector.index, compileError)
		}
		match, err := selector.expression.matches(s.ctx, d)
		if err != nil {
			return false, fmt.Errorf("%s: selector #%d on device %s: CEL runtime error: %w", selector.owner(a), selector.index, d.id, cel.EnhanceRuntimeError(err))
		}
		if !match {
			return false, nil
		}
	}
	if d.node != nil {
		return d.node.matches(s.node)
	}
	return true, nil
}

// owner names the class or claim of a selector of an alternative.
func (s *selector) owner(a *alternative) string {
	if s.ofClass {
		return "class " + a.class.Name
	}
	return fmt.Sprintf("claim %s", klog.KObj(a.claim.claim))
}

// toleratesTaintsOf reports whether each taint of a device that prevents allocation is
// tolerated. Effects that are not known prevent nothing.
func (a *alternative) toleratesTaintsOf(d *device) bool {
	for i := range d.api.Taints {
		taint := &d.api.Taints[i]
		if taint.Effect != resourceapi.DeviceTaintEffectNoExecute && taint.Effect != resourceapi.DeviceTaintEffectNoSchedule {
			continue
		}
		if !slices.ContainsFunc(a.tolerations, func(t resourceapi.DeviceToleration) bool { return resourceclaim.ToleratesTaint(t, *taint) }) {
			return false
		}
	}
	return true
}

// findAll makes all selected devices of pools the options, also those that are held: a
// request for all devices fails if it cannot get one of them.
func (s *search) findAll(a *alternative, o *options, pools []*pool) error {
	for i, p := range pools {
		for _, d := range p.devices {
			selected, err := s.isSelected(a, d)
			if err != nil {
				return err
			}
			if !selected {
				continue
			}
			if !d.wholeCapacity || a.capacity != nil {
				list, complete, err := consumptionsOf(s.scratch[:0], a.capacity, d)
				s.scratch = list
				if err != nil {
					return fmt.Errorf("claim %s, request %s: checking capacity for device %s: %w", klog.KObj(a.claim.claim), a.name, d.api.Name, err)
				}
				if !complete || !fitsInto(list, d, nil, nil) {
					continue
				}
			}
			o.list = append(o.list, option{device: d, pool: i})
		}
	}
	o.exhausted = true
	return nil
}

// findAllBefore returns why a request for all devices fails: a pool is not usable, unless
// there is an error in one before it.
func (s *search) findAllBefore(a *alternative, o *options, unusable *pool) error {
	before := slices.Index(s.pools.pools, unusable)
	if err := s.findAll(a, o, s.pools.pools[:before]); err != nil {
		return err
	}
	why := "invalid"
	if unusable.incomplete {
		why = "being updated"
	}
	return fmt.Errorf("claim %s, request %s: asks for all devices, but resource pool %s is currently %s", klog.KObj(a.claim.claim), a.name, unusable.id, why)
}
