package cache

import (
	"container/list"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/node/topology"
)

// nodeTree holds the order in which scheduling tries the nodes: one node of each
// zone in turn, zones in the order in which they were first seen, nodes within a
// zone in the order in which they were added. A node whose zone changes goes to
// the end of the new one. Adding and removing takes constant time.
//
// It gives the order of nodeTree in k8s.io/kubernetes/pkg/scheduler/backend/cache.
type nodeTree struct {
	zones      *list.List // of *zone
	zoneByName map[string]*list.Element
	size       int
}

// zone is a list of the nodes of a zone.
type zone struct {
	name        string
	first, last *treeNode
}

// treeNode is a node of a tree. It is part of what the owner of the tree keeps of the node, since
// a list and a map of the tree's own would take more memory.
type treeNode struct {
	name           string
	zone           *list.Element // of nodeTree.zones; nil outside a tree
	previous, next *treeNode     // of the zone
}

func newNodeTree() *nodeTree {
	return &nodeTree{zones: list.New(), zoneByName: map[string]*list.Element{}}
}

// set adds a node, or moves it when its zone changed.
func (t *nodeTree) set(n *treeNode, node *v1.Node) {
	name := topology.GetZoneKey(node)
	if n.zone != nil {
		if n.zone.Value.(*zone).name == name {
			return
		}
		t.remove(n)
	}
	z, ok := t.zoneByName[name]
	if !ok {
		z = t.zones.PushBack(&zone{name: name})
		t.zoneByName[name] = z
	}
	n.zone = z
	z.Value.(*zone).add(n)
	t.size++
}

// remove removes a node, and its zone with the last node.
func (t *nodeTree) remove(n *treeNode) {
	if n.zone == nil {
		return
	}
	z := n.zone.Value.(*zone)
	z.remove(n)
	if z.first == nil {
		t.zones.Remove(n.zone)
		delete(t.zoneByName, z.name)
	}
	n.zone = nil
	t.size--
}

func (z *zone) add(n *treeNode) {
	n.previous, n.next = z.last, nil
	if z.last == nil {
		z.first = n
	} else {
		z.last.next = n
	}
	z.last = n
}

func (z *zone) remove(n *treeNode) {
	if n.previous == nil {
		z.first = n.next
	} else {
		n.previous.next = n.next
	}
	if n.next == nil {
		z.last = n.previous
	} else {
		n.next.previous = n.previous
	}
	n.previous, n.next = nil, nil
}

// list returns the names of the nodes in order.
func (t *nodeTree) list() []string {
	names := make([]string, 0, t.size)
	var heads []*treeNode
	for z := t.zones.Front(); z != nil; z = z.Next() {
		heads = append(heads, z.Value.(*zone).first)
	}
	for len(names) < t.size {
		for i, node := range heads {
			if node != nil {
				names = append(names, node.name)
				heads[i] = node.next
			}
		}
	}
	return names
}
