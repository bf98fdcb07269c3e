package devices

import (
	"cmp"
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/cel"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/devices/allocation"
	"github.com/berthdev/berth/scheduler/framework"
)

// celCacheSize is the number of compiled CEL expressions that the public allocator finds
// again. kube-scheduler keeps 10; only speed depends on it.
const celCacheSize = 256

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
	// index has the slices for allocations, but for those whose names are in notIndexed.
	index      *allocation.Index
	notIndexed map[string]bool
}

var _ fwk.ResourceSliceLister = &sliceCache{}

func newSliceCache(parent *Devices) *sliceCache {
	compiler := cel.NewCache(celCacheSize, cel.Features{EnableConsumableCapacity: framework.DeviceFeatures.ConsumableCapacity})
	return &sliceCache{parent: parent, index: allocation.NewIndex(compiler), notIndexed: map[string]bool{}}
}

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
		c.sorted, c.notIndexed[name] = nil, true
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
	c.tainted[after.Name], c.sorted, c.notIndexed[after.Name] = after, nil, true
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

// indexed returns the index of all slices.
func (c *sliceCache) indexed() *allocation.Index {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.notIndexed) == 0 {
		return c.index
	}
	var changed []*resourceapi.ResourceSlice
	var deleted []string
	for name := range c.notIndexed {
		if slice := c.tainted[name]; slice != nil {
			changed = append(changed, slice)
		} else {
			deleted = append(deleted, name)
		}
	}
	c.index.Update(changed, deleted)
	clear(c.notIndexed)
	return c.index
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
