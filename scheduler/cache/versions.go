package cache

import (
	"strconv"

	v1 "k8s.io/api/core/v1"
)

// ResourceVersions are the resource versions of the newest changes that the cache
// has applied, of nodes and of assigned pods. All earlier changes of that kind are
// applied, and no later one.
type ResourceVersions struct {
	Nodes, Pods uint64
}

// maxVersion returns the greater of two resource versions. A version that is no
// number, as of an object that no API server stored, counts as 0.
func maxVersion(known uint64, version string) uint64 {
	n, _ := strconv.ParseUint(version, 10, 64)
	return max(known, n)
}

// ResourceVersions returns the versions as of the last Cache.UpdateSnapshot.
func (s *Snapshot) ResourceVersions() ResourceVersions { return s.versions }

// NodeOrderChecksum returns a checksum of the names of the nodes in the order in
// which scheduling tries them. A replay uses it to detect a different order.
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

// nameHash is a 32-bit FNV-1a hash over names, each followed by a zero byte,
// which no name contains.
type nameHash uint32

func newNameHash() nameHash { return 2166136261 }

func (s *nameHash) add(name string) {
	for i := range len(name) {
		*s = (*s ^ nameHash(name[i])) * 16777619
	}
	*s *= 16777619
}

// NodeOrder is the order in which scheduling tries nodes, without the nodes'
// content.
type NodeOrder struct {
	tree  *nodeTree
	nodes map[string]*treeNode
}

// NewNodeOrder returns an order without nodes.
func NewNodeOrder() *NodeOrder { return &NodeOrder{newNodeTree(), map[string]*treeNode{}} }

// Set adds a node, or moves it when its zone changed.
func (o *NodeOrder) Set(node *v1.Node) {
	n, known := o.nodes[node.Name]
	if !known {
		n = &treeNode{name: node.Name}
		o.nodes[node.Name] = n
	}
	o.tree.set(n, node)
}

// Remove removes a node.
func (o *NodeOrder) Remove(name string) {
	if n, known := o.nodes[name]; known {
		o.tree.remove(n)
		delete(o.nodes, name)
	}
}

// Checksum returns what Snapshot.NodeOrderChecksum returns for the same order.
func (o *NodeOrder) Checksum() uint32 {
	sum := newNameHash()
	for _, name := range o.tree.list() {
		sum.add(name)
	}
	return uint32(sum)
}
