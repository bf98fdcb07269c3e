package cache

import (
	"strconv"

	v1 "k8s.io/api/core/v1"
)

// Seen says how far the cache has come in what the API server tells: the
// resource versions of the newest change of a node, and of a pod that has one.
// Every earlier change of that kind has taken effect, and no later one.
type Seen struct {
	Nodes, Pods uint64
}

// later returns the later of two resource versions. What is no number, as of
// objects that never were in an API server, is the earliest.
func later(known uint64, version string) uint64 {
	n, _ := strconv.ParseUint(version, 10, 64)
	return max(known, n)
}

// Seen is what the snapshot shows.
func (s *Snapshot) Seen() Seen { return s.seen }

// OrderSum is a checksum of which nodes there are and in which order they are
// tried. Whoever thinks to know the order can tell by it.
func (s *Snapshot) OrderSum() uint32 {
	if !s.summed {
		sum := newSum()
		for _, node := range s.list {
			sum.add(node.Node().Name)
		}
		s.sum, s.summed = uint32(sum), true
	}
	return s.sum
}

// sum is FNV-1a over names, each with an end that no name has in it.
type sum uint32

func newSum() sum { return 2166136261 }

func (s *sum) add(name string) {
	for i := range len(name) {
		*s = (*s ^ sum(name[i])) * 16777619
	}
	*s *= 16777619
}

// NodeOrder is the order in which nodes are tried, without what is on them.
type NodeOrder struct{ order *order }

// NewNodeOrder returns that of no nodes.
func NewNodeOrder() *NodeOrder { return &NodeOrder{newOrder()} }

// Set adds a node, or moves it when its zone changed.
func (o *NodeOrder) Set(node *v1.Node) { o.order.set(node) }

// Remove takes a node out.
func (o *NodeOrder) Remove(name string) { o.order.remove(name) }

// Sum is what OrderSum would be.
func (o *NodeOrder) Sum() uint32 {
	sum := newSum()
	for _, name := range o.order.names() {
		sum.add(name)
	}
	return uint32(sum)
}
