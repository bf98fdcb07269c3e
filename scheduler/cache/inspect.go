package cache

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/framework"
)

// Who looks in from outside does so in pieces: in between the loop goes on.
const (
	pieceOfNodes = 64
	pieceOfPods  = 512
)

// EachNode shows each node, by name, as of the last Refresh, the ones included
// that are gone and whose pods are not. It may be called from any goroutine, also
// while the loop hangs: the snapshot moves in between, and does not while look is
// called, which must be short and keep nothing of what it is shown.
func (c *Cache) EachNode(look func(name string, node *framework.NodeInfo)) {
	s := c.snapshot
	s.fence.Lock()
	names := slices.Collect(maps.Keys(s.nodes))
	s.fence.Unlock()
	slices.Sort(names)
	for piece := range slices.Chunk(names, pieceOfNodes) {
		s.fence.Lock()
		for _, name := range piece {
			if n, there := s.nodes[name]; there {
				look(name, n.NodeInfo)
			}
		}
		s.fence.Unlock()
	}
}

// Order returns the names of the nodes in the order in which they are tried, as of
// the last Refresh. It may be called from any goroutine.
func (c *Cache) Order() []string {
	s := c.snapshot
	s.fence.Lock()
	defer s.fence.Unlock()
	names := make([]string, len(s.list))
	for i, node := range s.list {
		names[i] = node.Node().Name
	}
	return names
}

// Place is where a pod is.
type Place struct {
	// Info is the pod, without its node where that is only assumed.
	Info *framework.PodInfo
	Node string
	// Assumed says that the API server has not told so yet.
	Assumed bool
}

// Pod is the pod as it was given.
func (p Place) Pod() *v1.Pod { return p.Info.Unassigned() }

// Everyone returns the pods that have a node now, in no order. What comes or goes
// meanwhile may be among them or not.
func (c *Cache) Everyone() []Place {
	c.mu.Lock()
	uids := slices.Collect(maps.Keys(c.placed))
	c.mu.Unlock()
	all := make([]Place, 0, len(uids))
	for piece := range slices.Chunk(uids, pieceOfPods) {
		c.mu.Lock()
		for _, uid := range piece {
			if p, there := c.placed[uid]; there {
				all = append(all, Place{Info: p.info, Node: p.info.Node(), Assumed: p.assumed})
			}
		}
		c.mu.Unlock()
	}
	return all
}
