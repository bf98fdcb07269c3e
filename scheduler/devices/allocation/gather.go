package allocation

import (
	"maps"
	"slices"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
)

// nodePools are the pools of which a node may get devices, in the order of the search. They
// do not change.
type nodePools struct {
	pools []*pool
	// unusable is the first pool that is incomplete or invalid, and anyInvalid says that
	// one is invalid.
	unusable   *pool
	anyInvalid bool
	// err says that a node selector is invalid.
	err error
}

// gathered is what was found for a node, and from what.
type gathered struct {
	view  *view
	node  *v1.Node
	local []*deviceSlice
	// known are all pools of which the node has slices.
	known  []*poolSlices
	result *nodePools
}

// gather returns the pools for a node. last is the node of the caller's call before, which
// predicts this one: mostly nodes come in the same order for each pod.
func (x *Index) gather(current *view, node *v1.Node, last *atomic.Pointer[nodeSlot]) *nodePools {
	before := last.Load()
	if before != nil {
		if slot := before.next.Load(); slot != nil {
			if g := slot.gathered.Load(); g != nil && g.node == node && g.view == current {
				last.Store(slot)
				return g.result
			}
		}
	}
	slot := x.nodes.get(node.Name, newNodeSlot)
	if before != nil && before != slot {
		before.next.Store(slot)
	}
	last.Store(slot)
	known := slot.gathered.Load()
	if known != nil && known.node == node && known.view == current {
		return known.result
	}
	next := &gathered{view: current, node: node}
	next.local, _ = current.local.get(node.Name)
	if known != nil && known.isValidFor(next) {
		next.known, next.result = known.known, known.result
	} else {
		next.find()
	}
	slot.gathered.Store(next)
	return next.result
}

// isValidFor reports whether g's result is that of next too. Of a node only name and
// labels count.
func (g *gathered) isValidFor(next *gathered) bool {
	if g.node != next.node && !maps.Equal(g.node.Labels, next.node.Labels) {
		return false
	}
	if g.view == next.view {
		return true
	}
	if !sameSlices(g.local, next.local) || !sameSlices(g.view.shared, next.view.shared) {
		return false
	}
	for _, known := range g.known {
		if current, _ := next.view.pools.get(known.id); current != known {
			return false
		}
	}
	return true
}

// sameSlices reports whether two lists are one: a changed list is another one.
func sameSlices(a, b []*deviceSlice) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// find computes the result. Slices count in this order: those of the node alone, then the
// others; both by name.
func (g *gathered) find() {
	g.result = &nodePools{}
	relevant := map[poolID][]*deviceSlice{}
	var order []poolID
	for _, s := range slices.Concat(g.local, g.view.shared) {
		if s.ignored {
			continue
		}
		offers, err := s.offersTo(g.node)
		if err != nil {
			g.result.err = err
			return
		}
		if !offers {
			continue
		}
		known := relevant[s.pool]
		if known == nil {
			order = append(order, s.pool)
		}
		relevant[s.pool] = appendNewest(known, s)
	}
	for _, id := range order {
		all, _ := g.view.pools.get(id)
		g.known = append(g.known, all)
		if p := all.seenBy(relevant[id]); !p.obsolete {
			g.result.pools = append(g.result.pools, p)
		}
	}
	slices.SortFunc(g.result.pools, byDriverAndName)
	for _, p := range g.result.pools {
		g.result.anyInvalid = g.result.anyInvalid || p.invalid
		if g.result.unusable == nil && (p.incomplete || p.invalid) {
			g.result.unusable = p
		}
	}
}

// appendNewest adds a slice to those of its pool, of which only the newest generation
// counts.
func appendNewest(list []*deviceSlice, s *deviceSlice) []*deviceSlice {
	if len(list) > 0 {
		switch known, generation := list[0].api.Spec.Pool.Generation, s.api.Spec.Pool.Generation; {
		case generation < known:
			return list
		case generation > known:
			list = nil
		}
	}
	return append(list, s)
}

// nodeLimit is the number of nodes after which those that are not looked up any more are
// forgotten.
const nodeLimit = 1 << 16

// nodeSlot holds what was gathered for one node. It is safe for concurrent use.
type nodeSlot struct {
	gathered atomic.Pointer[gathered]
	// next is the node that came after this one last time.
	next atomic.Pointer[nodeSlot]
}

func newNodeSlot() *nodeSlot { return &nodeSlot{} }
