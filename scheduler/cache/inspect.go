package cache

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/framework"
)

// Who looks in from outside does so in pieces: in between the loop goes on.
const (
	nodesPerLock = 64
	podsPerLock  = 512
)

// EachNode shows each node, by name, as of the last Refresh, the ones included
// that are gone and whose pods are not. It may be called from any goroutine, also
// while the loop hangs: the snapshot moves in between, and does not while look is
// called, which must be short and keep nothing of what it is shown.
func (c *Cache) EachNode(look func(name string, node *framework.NodeInfo)) {
	s := c.snapshot
	s.mu.Lock()
	names := slices.Collect(maps.Keys(s.nodes))
	s.mu.Unlock()
	slices.Sort(names)
	for piece := range slices.Chunk(names, nodesPerLock) {
		s.mu.Lock()
		for _, name := range piece {
			if n, there := s.nodes[name]; there {
				look(name, n.NodeInfo)
			}
		}
		s.mu.Unlock()
	}
}

// Order returns the names of the nodes in the order in which they are tried, as of
// the last Refresh. It may be called from any goroutine.
func (c *Cache) NodeNames() []string {
	s := c.snapshot
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]string, len(s.list))
	for i, node := range s.list {
		names[i] = node.Node().Name
	}
	return names
}

// Place is where a pod is.
type AssignedPod struct {
	// Info is the pod, without its node where that is only assumed.
	Info *framework.PodInfo
	Node string
	// Assumed says that the API server has not told so yet.
	Assumed bool
}

// Pod is the pod as it was given.
func (p AssignedPod) Pod() *v1.Pod { return p.Info.OriginalPod() }

// Everyone returns the pods that have a node now, in no order. What comes or goes
// meanwhile may be among them or not.
func (c *Cache) AssignedPods() []AssignedPod {
	c.mu.Lock()
	uids := slices.Collect(maps.Keys(c.podStates))
	c.mu.Unlock()
	all := make([]AssignedPod, 0, len(uids))
	for piece := range slices.Chunk(uids, podsPerLock) {
		c.mu.Lock()
		for _, uid := range piece {
			if p, there := c.podStates[uid]; there {
				all = append(all, AssignedPod{Info: p.info, Node: p.info.NodeName(), Assumed: p.assumed})
			}
		}
		c.mu.Unlock()
	}
	return all
}
