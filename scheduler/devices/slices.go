package devices

import (
	"cmp"
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	toolscache "k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
)

// sliceCache holds the slices with the taints of DeviceTaintRules. It is safe for
// concurrent use.
//
// The tracker of k8s.io/dynamic-resource-allocation is not used: its handlers for slices
// and rules run at the same time without a lock, so that the taint of a new rule can be
// lost, and a rule that comes together with a slice which has more devices than before
// makes it panic. The events are the same.
type sliceCache struct {
	parent *Devices

	mu sync.Mutex
	// stored and rules are the stores of the informers. rules may be nil.
	stored, rules toolscache.Indexer
	// tainted are the slices by name, with taints.
	tainted map[string]*resourceapi.ResourceSlice
	// sorted are the slices by name, nil after a change.
	sorted []*resourceapi.ResourceSlice
}

var _ fwk.ResourceSliceLister = &sliceCache{}

// useInformers follows slices and rules. rules may be nil.
func (c *sliceCache) useInformers(slices, rules toolscache.SharedIndexInformer) ([]toolscache.InformerSynced, error) {
	c.mu.Lock()
	c.stored, c.tainted = slices.GetIndexer(), map[string]*resourceapi.ResourceSlice{}
	if rules != nil {
		c.rules = rules.GetIndexer()
	}
	c.mu.Unlock()
	observe := func(obj any) {
		if name, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
			c.update(func() { c.observeSlice(name) })
		}
	}
	sliceHandler, err := slices.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: observe, UpdateFunc: func(_, obj any) { observe(obj) }, DeleteFunc: observe,
	})
	if err != nil || rules == nil {
		return syncedOf(sliceHandler), err
	}
	ruleHandler, err := rules.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.update(func() { c.observeRule(obj) }) },
		UpdateFunc: func(oldObj, newObj any) { c.update(func() { c.observeRule(oldObj, newObj) }) },
		DeleteFunc: func(obj any) { c.update(func() { c.observeRule(obj) }) },
	})
	return syncedOf(sliceHandler, ruleHandler), err
}

// syncedOf returns the HasSynced of each handler. After an error a handler is nil.
func syncedOf(handlers ...toolscache.ResourceEventHandlerRegistration) []toolscache.InformerSynced {
	var synced []toolscache.InformerSynced
	for _, handler := range handlers {
		if handler != nil {
			synced = append(synced, handler.HasSynced)
		}
	}
	return synced
}

// update calls change with the lock, and then delivers the events that it has added.
func (c *sliceCache) update(change func()) {
	c.mu.Lock()
	change()
	c.mu.Unlock()
	c.parent.events.deliver()
}

// observeSlice handles an event of a slice, which is in the store unless it was deleted.
func (c *sliceCache) observeSlice(name string) {
	before := c.tainted[name]
	obj, exists, err := c.stored.GetByKey(name)
	slice, ok := obj.(*resourceapi.ResourceSlice)
	switch {
	case err == nil && exists && ok:
		c.set(before, withTaints(slice, c.listRules()))
	case before != nil:
		delete(c.tainted, name)
		c.sorted = nil
		c.parent.addEvent(fwk.ResourceSlice, before, nil)
	}
}

// observeRule handles an event of a rule, given as the versions before and after. Only
// slices whose taints change have an event.
func (c *sliceCache) observeRule(versions ...any) {
	rules := c.listRules()
	for _, before := range c.list() {
		if !slices.ContainsFunc(versions, func(rule any) bool { return mayConcern(rule, before) }) {
			continue
		}
		// An event of the slice itself comes later if the slice has changed too.
		obj, exists, err := c.stored.GetByKey(before.Name)
		slice, ok := obj.(*resourceapi.ResourceSlice)
		if err != nil || !exists || !ok {
			continue
		}
		if after := withTaints(slice, rules); !sameTaints(before, after) {
			c.set(before, after)
		}
	}
}

// set replaces a slice and adds the event. before is nil if the slice is new.
func (c *sliceCache) set(before, after *resourceapi.ResourceSlice) {
	c.tainted[after.Name], c.sorted = after, nil
	if before == nil {
		c.parent.addEvent(fwk.ResourceSlice, nil, after)
		return
	}
	c.parent.addEvent(fwk.ResourceSlice, before, after)
}

// ListWithDeviceTaintRules returns the slices by name. The list is shared until a slice
// or a rule changes: callers do not change it. The error is always nil.
//
// For allocations the order makes no difference: the allocator sorts pools by driver and
// name, and the slices of a pool by name. But of several faults of a pool it reports the
// first one that it finds.
func (c *sliceCache) ListWithDeviceTaintRules() ([]*resourceapi.ResourceSlice, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.list(), nil
}

func (c *sliceCache) list() []*resourceapi.ResourceSlice {
	if c.sorted == nil {
		c.sorted = make([]*resourceapi.ResourceSlice, 0, len(c.tainted))
		for _, slice := range c.tainted {
			c.sorted = append(c.sorted, slice)
		}
		slices.SortFunc(c.sorted, func(a, b *resourceapi.ResourceSlice) int { return cmp.Compare(a.Name, b.Name) })
	}
	return c.sorted
}

// listRules returns the rules by name, so that the order of taints is always the same.
func (c *sliceCache) listRules() []*resourceapi.DeviceTaintRule {
	if c.rules == nil {
		return nil
	}
	var rules []*resourceapi.DeviceTaintRule
	for _, obj := range c.rules.List() {
		if rule, ok := obj.(*resourceapi.DeviceTaintRule); ok {
			rules = append(rules, rule)
		}
	}
	slices.SortFunc(rules, func(a, b *resourceapi.DeviceTaintRule) int { return cmp.Compare(a.Name, b.Name) })
	return rules
}
