package cache

import (
	"container/list"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/node/topology"
)

// order is the order in which nodes are tried: one node of each zone in turn,
// zones as they were first seen, nodes within a zone as they came. A node that
// changes its zone goes to the end of the new one. Adding and removing takes
// constant time.
//
// Source: k8s.io/kubernetes/pkg/scheduler/backend/cache, nodeTree.
type nodeTree struct {
	zones      *list.List // of *zone
	zoneByName map[string]*list.Element
	positions  map[string]nodePosition
}

type zone struct {
	name  string
	nodes *list.List // of node names
}

// member is a node's place in the order.
type nodePosition struct {
	zone *list.Element // of order.zones
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

// remove takes a node out; a zone without nodes loses its turn.
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

// names returns the nodes in order.
func (o *nodeTree) list() []string {
	names := make([]string, 0, len(o.positions))
	var turns []*list.Element
	for z := o.zones.Front(); z != nil; z = z.Next() {
		turns = append(turns, z.Value.(*zone).nodes.Front())
	}
	for len(names) < len(o.positions) {
		for i, node := range turns {
			if node != nil {
				names = append(names, node.Value.(string))
				turns[i] = node.Next()
			}
		}
	}
	return names
}
