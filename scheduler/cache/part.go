package cache

import (
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
)

// part makes the nodes that the snapshot shows anew. It takes as long as there
// are nodes and pods, and is for the rare case that a plugin does not come back:
// it may look at nodes that nobody waits for it to have seen.
func (s *Snapshot) replaceNodeInfos() {
	s.columns.Nodes = slices.Clone(s.columns.Nodes)
	for _, n := range s.nodes {
		clone := n.NodeInfo.Clone()
		for name, state := range n.ImageStates {
			clone.ImageStates[name].NumNodes = state.NumNodes
		}
		n.NodeInfo = clone
		if n.counted {
			s.columns.Nodes[n.slot] = n.NodeInfo
		}
	}
	names := s.list
	s.list = make([]fwk.NodeInfo, len(names))
	for i, node := range names {
		s.list[i] = s.nodes[node.Node().Name].NodeInfo
	}
	s.affinityListsValid, s.readByAbandonedCall = false, false
}
