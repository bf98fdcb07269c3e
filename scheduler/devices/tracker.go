package devices

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

var _ fwk.ResourceClaimTracker = &claimCache{}

// pendingAllocation is an allocation that was decided and has not been written.
type pendingAllocation struct {
	claim *resourceapi.ResourceClaim
	// sharers counts the pods that use it.
	sharers int
	// seen says that other attempts may have seen it, since one of the pods went on to bind.
	seen bool
}

// Get returns the latest version of a claim, or a NotFound error.
func (c *claimCache) Get(namespace, name string) (*resourceapi.ResourceClaim, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	key := namespace + "/" + name
	if cached := c.claims[key]; cached != nil {
		return cached.latest, nil
	}
	return nil, claimNotFound(key)
}

// List returns the latest version of each claim, in no order. The error is always nil.
func (c *claimCache) List() ([]*resourceapi.ResourceClaim, error) { return c.list(), nil }

func (c *claimCache) list() []*resourceapi.ResourceClaim {
	c.mu.RLock()
	defer c.mu.RUnlock()
	list := make([]*resourceapi.ResourceClaim, 0, len(c.claims))
	for _, cached := range c.claims {
		list = append(list, cached.latest)
	}
	return list
}

// ControlledClaims is as in framework.Devices.
func (d *Devices) ControlledClaims(owner types.UID) (list []*resourceapi.ResourceClaim) {
	d.claims.mu.RLock()
	defer d.claims.mu.RUnlock()
	for _, key := range sets.List(d.claims.owned[owner]) {
		list = append(list, d.claims.claims[key].latest)
	}
	return list
}

// ListAllAllocatedDevices returns the devices that claims hold, those in flight
// included, wholly or in shares. The caller may change the result. The error is always
// nil.
func (c *claimCache) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.allocated.list(), nil
}

// GatherAllocatedState returns what is allocated at this moment, allocations in flight
// included. The result is shared with other callers: none of them changes it. The error
// is always nil: kube-scheduler's says that its three parts are not of the same moment.
func (c *claimCache) GatherAllocatedState() (*structured.AllocatedState, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.allocated.get(), nil
}

// GetPendingAllocation returns the allocation of a claim that is in flight, or nil.
func (c *claimCache) GetPendingAllocation(uid types.UID) *resourceapi.AllocationResult {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if pending := c.pending[uid]; pending != nil {
		return pending.claim.Status.Allocation
	}
	return nil
}

// SignalClaimPendingAllocation records an allocation that is in flight, or one more pod
// that shares it. It does nothing if the claim is allocated. The error says that the
// claim does not exist, or has no allocation.
func (c *claimCache) SignalClaimPendingAllocation(uid types.UID, claim *resourceapi.ResourceClaim) error {
	if claim == nil || claim.Status.Allocation == nil {
		return fmt.Errorf("claim with UID %s: status.allocation: is empty, want the allocation that is in flight", uid)
	}
	added, err := c.addPending(uid, claim)
	if added {
		c.parent.options.Changed()
	}
	return err
}

func (c *claimCache) addPending(uid types.UID, claim *resourceapi.ResourceClaim) (added bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if pending := c.pending[uid]; pending != nil {
		pending.sharers++
		return false, nil
	}
	if claim.Name != framework.ExtendedClaimName {
		key := keyOf(claim)
		cached := c.claims[key]
		switch {
		case cached == nil:
			return false, fmt.Errorf("look up assumed claim %s, UID=%s: %w", key, uid, claimNotFound(key))
		case cached.latest.UID == uid && cached.latest.Status.Allocation != nil:
			return false, nil // it was allocated after the caller looked
		}
	}
	c.pending[uid] = &pendingAllocation{claim: claim, sharers: 1}
	c.allocated.add(claim.Status.Allocation)
	return true, nil
}

// MaybeRemoveClaimPendingAllocation records that a pod no longer uses an allocation in
// flight, and removes it if no other pod does, or if force is true. It reports whether
// the allocation was removed. Where no claim holds its devices now, it adds the event that
// they are free, which no event of the API server says: the pod failed before its claim was
// written, or the claim was deallocated since. kube-scheduler adds none.
func (c *claimCache) MaybeRemoveClaimPendingAllocation(uid types.UID, force bool) (removed bool) {
	c.update(func() { removed = c.removePending(uid, force, true) })
	return removed
}

// EndPending implements framework.Devices.
func (d *Devices) EndPending(uid types.UID, seen bool) (removed bool) {
	d.claims.update(func() { removed = d.claims.removePending(uid, false, seen) })
	return removed
}

// removePending removes an allocation in flight. The event of freed devices is added only where
// it was seen. The caller holds the lock.
func (c *claimCache) removePending(uid types.UID, force, seen bool) (removed bool) {
	pending := c.pending[uid]
	if pending == nil {
		return false
	}
	pending.seen = pending.seen || seen
	if pending.sharers--; pending.sharers > 0 && !force {
		return false
	}
	delete(c.pending, uid)
	c.allocated.remove(pending.claim.Status.Allocation)
	c.changed = true
	if pending.seen && !c.allocated.holds(pending.claim.Status.Allocation) {
		c.addFreed(pending.claim)
	}
	return true
}

// addFreed adds the event that the devices of an allocation in flight are free. The caller holds
// the lock.
func (c *claimCache) addFreed(claim *resourceapi.ResourceClaim) {
	if cached := c.claims[keyOf(claim)]; cached == nil || cached.latest.UID != claim.UID {
		c.parent.addEvent(fwk.ResourceClaim, claim, nil)
		return
	}
	free := *claim
	free.Status = resourceapi.ResourceClaimStatus{}
	c.parent.addEvent(fwk.ResourceClaim, claim, &free)
}

// AssumeClaimAfterAPICall makes reads return a version that the API server has returned,
// until the informer delivers a newer one, or until AssumedClaimRestore. The error says
// that the claim does not exist, or that a newer version is known.
func (c *claimCache) AssumeClaimAfterAPICall(claim *resourceapi.ResourceClaim) (err error) {
	c.update(func() { err = c.assume(claim, false) })
	return err
}

// AssumedClaimRestore makes reads return the version that the informer delivered last,
// unless the latest version is one that Devices itself has written: the API server has
// that, so that its devices are not free. kube-scheduler forgets it until the informer
// delivers it, or longer if the informer did before.
func (c *claimCache) AssumedClaimRestore(namespace, name string) {
	c.update(func() {
		key := namespace + "/" + name
		cached := c.claims[key]
		if cached != nil && !cached.written && cached.latest != cached.api {
			c.setLatest(key, cached, cached.api)
		}
	})
}
