package allocation

import (
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
)

// Index holds ResourceSlices by node and pool, and which device matches which CEL
// expression. It is safe for concurrent use.
type Index struct {
	expressions *expressions
	shapes      shapes
	nodes       recentCache[*nodeSlot]

	mu sync.Mutex
	// slices are by name.
	slices    map[string]*deviceSlice
	freeSlots []int
	slots     int
	// current is replaced by each change.
	current *view
}

// view is the content of an Index at one moment. It does not change.
type view struct {
	// local are the slices by the only node that can use them, by name.
	local table[string, []*deviceSlice]
	// shared are the other slices, by name.
	shared []*deviceSlice
	pools  table[poolID, *poolSlices]
}

// NewIndex returns an empty Index. compiler may be shared.
func NewIndex(compiler *cel.Cache) *Index {
	return &Index{
		expressions: newExpressions(compiler), shapes: shapes{recentCache[*shape]{limit: shapeLimit}}, nodes: recentCache[*nodeSlot]{limit: nodeLimit},
		slices: map[string]*deviceSlice{}, current: &view{},
	}
}

// edits are the parts of a view that a change concerns.
type edits struct {
	nodes  map[string][]*deviceSlice
	pools  map[poolID][]*deviceSlice
	shared []*deviceSlice
	// sharedChanged says that shared is not that of the current view.
	sharedChanged bool
}

// Update replaces the slices that have changed, given with the taints of DeviceTaintRules,
// and removes those with the names in deleted. It keeps the objects, which must not be
// changed later. Only the nodes and pools of these slices are built anew, and only their
// devices are evaluated again.
func (x *Index) Update(changed []*resourceapi.ResourceSlice, deleted []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(changed) == 0 && len(deleted) == 0 {
		return
	}
	e := &edits{nodes: map[string][]*deviceSlice{}, pools: map[poolID][]*deviceSlice{}, shared: x.current.shared}
	for _, name := range deleted {
		x.remove(e, name)
	}
	for _, api := range changed {
		x.remove(e, api.Name)
		s := newDeviceSlice(api, x.takeSlot())
		x.slices[api.Name] = s
		x.edit(e, s, func(list []*deviceSlice) []*deviceSlice { return append(list, s) })
	}
	after := *x.current
	for node, list := range e.nodes {
		if len(list) == 0 {
			after.local = after.local.without(node)
			continue
		}
		slices.SortFunc(list, byName)
		after.local = after.local.with(node, list)
	}
	for id, list := range e.pools {
		if len(list) == 0 {
			after.pools = after.pools.without(id)
			continue
		}
		slices.SortFunc(list, byName)
		after.pools = after.pools.with(id, newPoolSlices(id, list))
	}
	if e.sharedChanged {
		slices.SortFunc(e.shared, byName)
		after.shared = e.shared
	}
	x.current = &after
}

// remove removes a slice if there is one of that name.
func (x *Index) remove(e *edits, name string) {
	s := x.slices[name]
	if s == nil {
		return
	}
	delete(x.slices, name)
	x.freeSlots = append(x.freeSlots, s.slot)
	x.edit(e, s, func(list []*deviceSlice) []*deviceSlice {
		return slices.DeleteFunc(list, func(other *deviceSlice) bool { return other == s })
	})
}

// edit applies change to copies of the lists that a slice belongs to.
func (x *Index) edit(e *edits, s *deviceSlice, change func([]*deviceSlice) []*deviceSlice) {
	list, copied := e.pools[s.pool]
	if !copied {
		if known, found := x.current.pools.get(s.pool); found {
			list = slices.Clone(known.slices)
		}
	}
	e.pools[s.pool] = change(list)
	node := s.localTo()
	if node == "" {
		if !e.sharedChanged {
			e.shared, e.sharedChanged = slices.Clone(e.shared), true
		}
		e.shared = change(e.shared)
		return
	}
	if list, copied = e.nodes[node]; !copied {
		known, _ := x.current.local.get(node)
		list = slices.Clone(known)
	}
	e.nodes[node] = change(list)
}

func (x *Index) takeSlot() int {
	if last := len(x.freeSlots) - 1; last >= 0 {
		slot := x.freeSlots[last]
		x.freeSlots = x.freeSlots[:last]
		return slot
	}
	x.slots++
	return x.slots - 1
}

// now returns the current view.
func (x *Index) now() *view {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.current
}
