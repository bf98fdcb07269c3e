package cache

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/klog/v2"

	"github.com/berthdev/berth/scheduler/framework"
)

// apply lets changes take effect in the order in which they were noted.
func (s *Snapshot) apply(deltas []delta) {
	s.changes += uint64(len(deltas))
	for _, d := range deltas {
		s.touch(s.applyOne(d))
	}
	relist := false
	for _, n := range s.touched {
		n.touched = false
		switch {
		case n.Node() == nil && len(n.GetPods()) == 0 && !n.listed:
			delete(s.nodes, n.name)
		case n.Node() != nil:
			s.updateImageNodeCounts(n)
			relist = relist || !n.listed
			if n.counted {
				s.columns.UpdateResources(n.slot)
			}
		}
	}
	clear(s.touched)
	s.touched = s.touched[:0]
	if relist || s.listedNodes > len(s.nodeTree.positions) {
		s.rebuildNodeList()
	}
}

// touch remembers a node, which may be nil, until all deltas are applied.
func (s *Snapshot) touch(n *nodeState) {
	if n != nil && !n.touched {
		n.touched = true
		s.touched = append(s.touched, n)
	}
}

// applyOne changes one node and returns it, nil when there is none.
func (s *Snapshot) applyOne(d delta) *nodeState {
	switch {
	case d.setNode != nil:
		n := s.getOrCreateNode(d.setNode.Name)
		s.setNode(n, d.setNode)
		return n
	case d.removeNode != "":
		n, ok := s.nodes[d.removeNode]
		if !ok {
			return nil
		}
		s.removeImages(n)
		s.nodeTree.remove(d.removeNode)
		s.removeFromColumns(n)
		n.RemoveNode()
		return n
	case d.changedFacets != 0:
		// What is concluded from storage lasts no longer than an attempt anyway.
		if d.changedFacets != framework.StorageObjects {
			s.listerChanges++
		}
		return nil
	case d.addPod != nil:
		return s.addPod(d.addPod)
	default:
		return s.removePod(d.removePod)
	}
}

func (s *Snapshot) setNode(n *nodeState, node *v1.Node) {
	// Labels and taints say where pods count.
	moves := n.listed && !sameLabelsAndTaints(n.Node(), node)
	if moves {
		s.removeFromColumns(n)
	}
	s.removeImages(n)
	s.nodeTree.set(node)
	n.SetNode(node)
	s.addImages(n)
	if moves {
		s.addToColumns(n)
	}
}

// sameScope says whether two versions of a node put its pods into the same
// domains and scopes.
func sameLabelsAndTaints(a, b *v1.Node) bool {
	return a != nil && b != nil && maps.Equal(a.Labels, b.Labels) && equality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints)
}

func (s *Snapshot) addPod(info *framework.PodInfo) *nodeState {
	n := s.getOrCreateNode(info.NodeName())
	n.AddPodInfo(info)
	s.affinityListsValid = s.affinityListsValid && info.OriginalPod().Spec.Affinity == nil
	if n.counted {
		s.incremental.countPod(n.slot, info, 1)
	}
	return n
}

func (s *Snapshot) removePod(info *framework.PodInfo) *nodeState {
	pod := info.OriginalPod()
	n := s.getOrCreateNode(info.NodeName())
	// The delta log holds each removal behind its addition, so that the pod is
	// there.
	if err := n.RemovePod(klog.Background(), pod); err != nil {
		klog.ErrorS(err, "The cache lost count of a pod; please report this", "pod", klog.KObj(pod))
		return n
	}
	s.affinityListsValid = s.affinityListsValid && pod.Spec.Affinity == nil
	if n.counted {
		s.incremental.countPod(n.slot, info, -1)
	}
	return n
}

func (s *Snapshot) getOrCreateNode(name string) *nodeState {
	n, ok := s.nodes[name]
	if !ok {
		n = &nodeState{NodeInfo: framework.NewNodeInfo(), name: name, slot: noSlot}
		s.nodes[name] = n
	}
	return n
}
