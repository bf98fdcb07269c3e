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
			s.captureImages(n)
			relist = relist || !n.listed
			if n.counted {
				s.columns.Count(n.slot)
			}
		}
	}
	clear(s.touched)
	s.touched = s.touched[:0]
	if relist || s.listed > len(s.order.nodes) {
		s.relist()
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
	case d.node != nil:
		n := s.node(d.node.Name)
		s.setNode(n, d.node)
		return n
	case d.noNode != "":
		n, ok := s.nodes[d.noNode]
		if !ok {
			return nil
		}
		s.dropImages(n)
		s.order.remove(d.noNode)
		s.leave(n)
		n.RemoveNode()
		return n
	case d.other != 0:
		// What is concluded from storage lasts no longer than an attempt anyway.
		if d.other != framework.StorageObjects {
			s.moved++
		}
		return nil
	case d.pod != nil:
		return s.addPod(d.pod)
	default:
		return s.removePod(d.noPod)
	}
}

func (s *Snapshot) setNode(n *nodeState, node *v1.Node) {
	// Labels and taints say where pods count.
	moves := n.listed && !sameScope(n.Node(), node)
	if moves {
		s.leave(n)
	}
	s.dropImages(n)
	s.order.set(node)
	n.SetNode(node)
	s.addImages(n)
	if moves {
		s.settle(n)
	}
}

// sameScope says whether two versions of a node put its pods into the same
// domains and scopes.
func sameScope(a, b *v1.Node) bool {
	return a != nil && b != nil && maps.Equal(a.Labels, b.Labels) && equality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints)
}

func (s *Snapshot) addPod(info *framework.PodInfo) *nodeState {
	n := s.node(info.Node())
	n.AddPodInfo(info)
	s.sorted = s.sorted && info.Unassigned().Spec.Affinity == nil
	if n.counted {
		s.kept.shift(n.slot, info, 1)
	}
	return n
}

func (s *Snapshot) removePod(info *framework.PodInfo) *nodeState {
	pod := info.Unassigned()
	n := s.node(info.Node())
	// The delta log holds each removal behind its addition, so that the pod is
	// there.
	if err := n.RemovePod(klog.Background(), pod); err != nil {
		klog.ErrorS(err, "The cache lost count of a pod; please report this", "pod", klog.KObj(pod))
		return n
	}
	s.sorted = s.sorted && pod.Spec.Affinity == nil
	if n.counted {
		s.kept.shift(n.slot, info, -1)
	}
	return n
}

func (s *Snapshot) node(name string) *nodeState {
	n, ok := s.nodes[name]
	if !ok {
		n = &nodeState{NodeInfo: framework.NewNodeInfo(), name: name, slot: noSlot}
		s.nodes[name] = n
	}
	return n
}
