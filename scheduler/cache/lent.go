package cache

import (
	"sync/atomic"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/fault"
)

// Lent is the Snapshot for plugins that may not come back in time, and may look
// at it when the loop has gone on. While one of their calls is out, all that they
// are shown stands still. Counts move all the same.
type PinnedSnapshot struct {
	*Snapshot
	// owed is how many of their calls are out.
	abandonedCalls atomic.Int32
}

var _ fwk.SharedLister = &PinnedSnapshot{}

// Lend returns the Snapshot for the plugins of one Framework.
func (c *Cache) PinnedSnapshot() *PinnedSnapshot { return &PinnedSnapshot{Snapshot: c.snapshot} }

// Owe notes that so many calls more are out.
func (l *PinnedSnapshot) AddAbandonedCalls(by int32) { l.abandonedCalls.Add(by) }

// show waits until the Snapshot does not move, and notes that it is looked at.
func (l *PinnedSnapshot) lockForRead() (end func()) {
	l.mu.Lock()
	if l.abandonedCalls.Load() > 0 && !fault.LateLooksOn {
		l.readByAbandonedCall = true
	}
	return l.mu.Unlock
}

// NodeInfos lists the nodes.
func (l *PinnedSnapshot) NodeInfos() fwk.NodeInfoLister {
	return pinnedNodeLister{nodeLister{l.Snapshot}, l}
}

// StorageInfos answers questions about claims in use.
func (l *PinnedSnapshot) StorageInfos() fwk.StorageInfoLister { return pinnedStorageLister{l} }

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
