package cache

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// update applies deltas for an attempt, in the order in which they were recorded. The
// result does not depend on updateBetween: nodes have the numbers of images and the order
// that they would have if all deltas since the last attempt were applied now.
func (s *Snapshot) update(deltas []delta) {
	between, before := s.changedSince, s.attemptOrder
	s.changedSince, s.attemptOrder = false, nil
	if between {
		s.changes++ // the numbers of images and the order may change without a delta
		for _, name := range s.order {
			if n := s.nodes[name]; n.changedSince {
				n.changedSince = false
				s.touch(n)
			}
		}
	}
	relist := s.apply(deltas)
	switch {
	case !between && relist:
		s.rebuildNodeList(s.nodeTree.list())
	case between && s.hasExactly(before):
		s.relist(relist, before)
	case between:
		s.relist(relist, s.nodeTree.list())
	}
}

// updateBetween applies deltas between two attempts. It records what update needs.
func (s *Snapshot) updateBetween(deltas []delta) {
	if !s.changedSince {
		s.changedSince, s.attemptOrder = true, s.order
	}
	if s.apply(deltas) {
		s.rebuildNodeList(s.nodeTree.list())
	}
}

// relist rebuilds the list of nodes if it must be, or if it has another order.
func (s *Snapshot) relist(must bool, order []string) {
	if must || !slices.Equal(s.order, order) {
		s.rebuildNodeList(order)
	}
}

// apply applies deltas, and reports whether the list of nodes lacks a node or has a
// removed one.
func (s *Snapshot) apply(deltas []delta) (relist bool) {
	s.changes += uint64(len(deltas))
	for _, d := range deltas {
		s.touch(s.applyOne(d))
	}
	for _, n := range s.touched {
		n.touched, n.changedSince = false, s.changedSince
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
	s.touched = emptied(s.touched)
	return relist || s.listedNodes > s.nodeTree.size
}

// hasExactly reports whether the cluster has these nodes, whose names differ, and no others.
func (s *Snapshot) hasExactly(names []string) bool {
	return len(names) == s.nodeTree.size && !slices.ContainsFunc(names, func(name string) bool { return s.Node(name) == nil })
}

// maxSpare is how many elements a buffer that is used again may have. At a start, or after an
// outage, there are many more changes than between two attempts later.
const maxSpare = 4096

// emptied returns an empty buffer, which uses the memory of all if it may be used again.
func emptied[T any](all []T) []T {
	if cap(all) > maxSpare {
		return nil
	}
	clear(all)
	return all[:0]
}

// touch marks a node, which may be nil, as changed by the current deltas.
func (s *Snapshot) touch(n *nodeState) {
	if n != nil && !n.touched {
		n.touched = true
		s.touched = append(s.touched, n)
	}
}

// applyOne applies one delta and returns the node that it changed, nil when
// it changed none.
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
		s.nodeTree.remove(&n.treeNode)
		s.removeFromColumns(n)
		n.RemoveNode()
		return n
	case d.changedFacets != 0:
		// No result that reads storage objects is reused beyond one attempt, so
		// that a change of them invalidates nothing.
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
	// Labels and taints decide in which topology domains the pods of the node
	// are counted.
	moves := n.listed && !sameLabelsAndTaints(n.Node(), node)
	if moves {
		s.removeFromColumns(n)
	}
	s.removeImages(n)
	s.nodeTree.set(&n.treeNode, node)
	n.SetNode(node)
	s.addImages(n)
	if moves {
		s.addToColumns(n)
	}
}

// sameLabelsAndTaints reports whether two versions of a node have the same
// labels and taints, so that their pods count in the same topology domains.
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

// removePod removes a pod from its node. Where the node has another version of it, or two, the
// one that the node loses is subtracted from the counts, too.
func (s *Snapshot) removePod(info *framework.PodInfo) *nodeState {
	n := s.getOrCreateNode(info.NodeName())
	// Each removal is recorded after its addition, so that the pod is on the
	// node.
	taken, err := n.TakePod(info.OriginalPod())
	if err != nil {
		klog.ErrorS(err, "The cache does not hold a pod on the node that it is removed from; please report this", "pod", klog.KObj(info.OriginalPod()))
		return n
	}
	removed := taken.(*framework.PodInfo)
	s.affinityListsValid = s.affinityListsValid && removed.OriginalPod().Spec.Affinity == nil
	if n.counted {
		s.incremental.countPod(n.slot, removed, -1)
	}
	return n
}

func (s *Snapshot) getOrCreateNode(name string) *nodeState {
	n, ok := s.nodes[name]
	if !ok {
		n = &nodeState{NodeInfo: framework.NewNodeInfo(), treeNode: treeNode{name: name}, slot: noSlot}
		s.nodes[name] = n
	}
	return n
}

// addImages adds the images of a node. As in kube-scheduler, the size of an image
// is the one that the first node reported.
func (s *Snapshot) addImages(n *nodeState) {
	node := n.Node()
	if len(node.Status.Images) == 0 {
		n.ImageStates = nil
		return
	}
	n.ImageStates = make(map[string]*fwk.ImageStateSummary, len(node.Status.Images))
	for _, image := range node.Status.Images {
		for _, name := range image.Names {
			state, ok := s.images[name]
			if !ok {
				state = &fwk.ImageStateSummary{Size: image.SizeBytes, Nodes: sets.New[string]()}
				s.images[name] = state
			}
			state.Nodes.Insert(node.Name)
			n.ImageStates[name] = &fwk.ImageStateSummary{Size: state.Size}
		}
	}
	s.imageEpoch++
}

// removeImages removes the images of a node.
func (s *Snapshot) removeImages(n *nodeState) {
	node := n.Node()
	if node == nil || len(node.Status.Images) == 0 {
		return
	}
	for _, image := range node.Status.Images {
		for _, name := range image.Names {
			state, ok := s.images[name]
			if !ok {
				continue
			}
			state.Nodes.Delete(node.Name)
			if len(state.Nodes) == 0 {
				delete(s.images, name)
			}
		}
	}
	n.ImageStates = nil
	s.imageEpoch++
}

// updateImageNodeCounts stores in a changed node on how many nodes each of its
// images is. An unchanged node keeps the older number: kube-scheduler takes the
// number when it copies a changed node, and scores depend on it.
func (s *Snapshot) updateImageNodeCounts(n *nodeState) {
	if n.imageEpoch == s.imageEpoch {
		return
	}
	n.imageEpoch = s.imageEpoch
	for name, summary := range n.ImageStates {
		if state, ok := s.images[name]; ok {
			summary.NumNodes = len(state.Nodes)
		}
	}
}
