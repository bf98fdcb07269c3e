package cache

import (
	"slices"
	"sync/atomic"

	fwk "k8s.io/kube-scheduler/framework"
)

// PinnedSnapshot is the Snapshot for out-of-tree plugins: a call of one that
// exceeds its deadline is abandoned and may go on reading while the scheduling
// loop continues. While one of their calls is abandoned, the NodeInfos that the
// snapshot returned do not change. Counts do.
type PinnedSnapshot struct {
	*Snapshot
	// abandonedCalls is the number of abandoned calls that have not returned.
	abandonedCalls atomic.Int32
}

var _ fwk.SharedLister = &PinnedSnapshot{}

// PinnedSnapshot returns the Snapshot for the out-of-tree plugins of one
// Framework.
func (c *Cache) PinnedSnapshot() *PinnedSnapshot { return &PinnedSnapshot{Snapshot: c.snapshot} }

// AddAbandonedCalls adds to the number of abandoned calls; by is negative when
// calls return.
func (p *PinnedSnapshot) AddAbandonedCalls(by int32) { p.abandonedCalls.Add(by) }

// lockForRead waits until the Snapshot is not being updated. While a call is
// abandoned it records the read, so that the next update replaces the NodeInfos.
// The caller must call unlock.
func (p *PinnedSnapshot) lockForRead() (unlock func()) {
	p.mu.Lock()
	if p.abandonedCalls.Load() > 0 {
		p.readByAbandonedCall = true
	}
	return p.mu.Unlock
}

// NodeInfos returns a lister of the nodes.
func (p *PinnedSnapshot) NodeInfos() fwk.NodeInfoLister {
	return pinnedNodeLister{nodeLister{p.Snapshot}, p}
}

// StorageInfos returns what knows which claims are in use.
func (p *PinnedSnapshot) StorageInfos() fwk.StorageInfoLister { return pinnedStorageLister{p} }

type pinnedNodeLister struct {
	nodeLister
	pinned *PinnedSnapshot
}

func (n pinnedNodeLister) List() ([]fwk.NodeInfo, error) {
	defer n.pinned.lockForRead()()
	return n.nodeLister.List()
}

func (n pinnedNodeLister) HavePodsWithAffinityList() ([]fwk.NodeInfo, error) {
	defer n.pinned.lockForRead()()
	return n.nodeLister.HavePodsWithAffinityList()
}

func (n pinnedNodeLister) HavePodsWithRequiredAntiAffinityList() ([]fwk.NodeInfo, error) {
	defer n.pinned.lockForRead()()
	return n.nodeLister.HavePodsWithRequiredAntiAffinityList()
}

func (n pinnedNodeLister) Get(name string) (fwk.NodeInfo, error) {
	defer n.pinned.lockForRead()()
	return n.nodeLister.Get(name)
}

type pinnedStorageLister struct{ pinned *PinnedSnapshot }

func (s pinnedStorageLister) IsPVCUsedByPods(key string) bool {
	defer s.pinned.lockForRead()()
	return storageLister{s.pinned.Snapshot}.IsPVCUsedByPods(key)
}

// replaceNodeInfos replaces every NodeInfo by a clone. It takes time proportional
// to the number of nodes and pods, and is needed only after an abandoned plugin
// call has read the snapshot: that call may still read the old NodeInfos.
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
	old := s.list
	s.list = make([]fwk.NodeInfo, len(old))
	for i, node := range old {
		s.list[i] = s.nodes[node.Node().Name].NodeInfo
	}
	s.affinityListsValid, s.readByAbandonedCall = false, false
}
