package cache

import (
	"container/list"
	"slices"

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
	positions  map[string]nodePosition
}

type zone struct {
	name  string
	nodes *list.List // of node names
}

// nodePosition is the position of a node in the tree.
type nodePosition struct {
	zone *list.Element // of nodeTree.zones
	node *list.Element // of zone.nodes
}

func newNodeTree() *nodeTree {
	return &nodeTree{zones: list.New(), zoneByName: map[string]*list.Element{}, positions: map[string]nodePosition{}}
}

// set adds a node, or moves it when its zone changed.
func (t *nodeTree) set(node *v1.Node) {
	name := topology.GetZoneKey(node)
	if m, ok := t.positions[node.Name]; ok {
		if m.zone.Value.(*zone).name == name {
			return
		}
		t.remove(node.Name)
	}
	z, ok := t.zoneByName[name]
	if !ok {
		z = t.zones.PushBack(&zone{name: name, nodes: list.New()})
		t.zoneByName[name] = z
	}
	t.positions[node.Name] = nodePosition{zone: z, node: z.Value.(*zone).nodes.PushBack(node.Name)}
}

// remove removes a node, and its zone with the last node.
func (t *nodeTree) remove(node string) {
	m, ok := t.positions[node]
	if !ok {
		return
	}
	delete(t.positions, node)
	z := m.zone.Value.(*zone)
	z.nodes.Remove(m.node)
	if z.nodes.Len() == 0 {
		t.zones.Remove(m.zone)
		delete(t.zoneByName, z.name)
	}
}

// hasExactly reports whether the tree has these nodes, whose names differ, and no others.
func (t *nodeTree) hasExactly(names []string) bool {
	return len(names) == len(t.positions) && !slices.ContainsFunc(names, func(name string) bool {
		_, ok := t.positions[name]
		return !ok
	})
}

// list returns the names of the nodes in order.
func (t *nodeTree) list() []string {
	names := make([]string, 0, len(t.positions))
	var heads []*list.Element
	for z := t.zones.Front(); z != nil; z = z.Next() {
		heads = append(heads, z.Value.(*zone).nodes.Front())
	}
	for len(names) < len(t.positions) {
		for i, node := range heads {
			if node != nil {
				names = append(names, node.Value.(string))
				heads[i] = node.Next()
			}
		}
	}
	return names
}
