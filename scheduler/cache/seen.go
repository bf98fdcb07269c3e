package cache

import (
	"strconv"

	v1 "k8s.io/api/core/v1"
)

// Seen says how far the cache has come in what the API server tells: the
// resource versions of the newest change of a node, and of a pod that has one.
// Every earlier change of that kind has taken effect, and no later one.
type ResourceVersions struct {
	Nodes, Pods uint64
}

// later returns the later of two resource versions. What is no number, as of
// objects that never were in an API server, is the earliest.
func maxVersion(known uint64, version string) uint64 {
	n, _ := strconv.ParseUint(version, 10, 64)
	return max(known, n)
}

// Seen is what the snapshot shows.
func (s *Snapshot) ResourceVersions() ResourceVersions { return s.versions }

// OrderSum is a checksum of which nodes there are and in which order they are
// tried. Whoever thinks to know the order can tell by it.
func (s *Snapshot) NodeOrderChecksum() uint32 {
	if !s.checksumValid {
		sum := newNameHash()
		for _, node := range s.list {
			sum.add(node.Node().Name)
		}
		s.checksum, s.checksumValid = uint32(sum), true
	}
	return s.checksum
}

// sum is FNV-1a over names, each with an end that no name has in it.
type nameHash uint32

func newNameHash() nameHash { return 2166136261 }

func (s *nameHash) add(name string) {
	for i := range len(name) {
		*s = (*s ^ nameHash(name[i])) * 16777619
	}
	*s *= 16777619
}

// NodeOrder is the order in which nodes are tried, without what is on them.
type NodeOrder struct{ tree *nodeTree }

// NewNodeOrder returns that of no nodes.
func NewNodeOrder() *NodeOrder { return &NodeOrder{newNodeTree()} }

// Set adds a node, or moves it when its zone changed.
func (o *NodeOrder) Set(node *v1.Node) { o.tree.set(node) }

// Remove takes a node out.
func (o *NodeOrder) Remove(name string) { o.tree.remove(name) }

// Sum is what OrderSum would be.
func (o *NodeOrder) Checksum() uint32 {
	sum := newNameHash()
	for _, name := range o.tree.list() {
		sum.add(name)
	}
	return uint32(sum)
}
