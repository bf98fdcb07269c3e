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
func (o *nodeTree) set(node *v1.Node) {
	name := topology.GetZoneKey(node)
	if m, ok := o.positions[node.Name]; ok {
		if m.zone.Value.(*zone).name == name {
			return
		}
		o.remove(node.Name)
	}
	z, ok := o.zoneByName[name]
	if !ok {
		z = o.zones.PushBack(&zone{name: name, nodes: list.New()})
		o.zoneByName[name] = z
	}
	o.positions[node.Name] = nodePosition{zone: z, node: z.Value.(*zone).nodes.PushBack(node.Name)}
}

// remove removes a node, and its zone with the last node.
func (o *nodeTree) remove(node string) {
	m, ok := o.positions[node]
	if !ok {
		return
	}
	delete(o.positions, node)
	z := m.zone.Value.(*zone)
	z.nodes.Remove(m.node)
	if z.nodes.Len() == 0 {
		o.zones.Remove(m.zone)
		delete(o.zoneByName, z.name)
	}
}

// list returns the names of the nodes in order.
func (o *nodeTree) list() []string {
	names := make([]string, 0, len(o.positions))
	var heads []*list.Element
	for z := o.zones.Front(); z != nil; z = z.Next() {
		heads = append(heads, z.Value.(*zone).nodes.Front())
	}
	for len(names) < len(o.positions) {
		for i, node := range heads {
			if node != nil {
				names = append(names, node.Value.(string))
				heads[i] = node.Next()
			}
		}
	}
	return names
}
