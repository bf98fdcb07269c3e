package cache

import (
	"sync/atomic"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/fault"
)

// Lent is the Snapshot for plugins that may not come back in time, and may look
// at it when the loop has gone on. While one of their calls is out, all that they
// are shown stands still. Counts move all the same.
type Lent struct {
	*Snapshot
	// owed is how many of their calls are out.
	owed atomic.Int32
}

var _ fwk.SharedLister = &Lent{}

// Lend returns the Snapshot for the plugins of one Framework.
func (c *Cache) Lend() *Lent { return &Lent{Snapshot: c.snapshot} }

// Owe notes that so many calls more are out.
func (l *Lent) Owe(by int32) { l.owed.Add(by) }

// show waits until the Snapshot does not move, and notes that it is looked at.
func (l *Lent) show() (end func()) {
	l.fence.Lock()
	if l.owed.Load() > 0 && !fault.LateLooksOn {
		l.shown = true
	}
	return l.fence.Unlock
}

// NodeInfos lists the nodes.
func (l *Lent) NodeInfos() fwk.NodeInfoLister { return lentNodes{nodeLister{l.Snapshot}, l} }

// StorageInfos answers questions about claims in use.
func (l *Lent) StorageInfos() fwk.StorageInfoLister { return lentStorage{l} }

type lentNodes struct {
	nodeLister
	lent *Lent
}

func (n lentNodes) List() ([]fwk.NodeInfo, error) {
	defer n.lent.show()()
	return n.nodeLister.List()
}

func (n lentNodes) HavePodsWithAffinityList() ([]fwk.NodeInfo, error) {
	defer n.lent.show()()
	return n.nodeLister.HavePodsWithAffinityList()
}

func (n lentNodes) HavePodsWithRequiredAntiAffinityList() ([]fwk.NodeInfo, error) {
	defer n.lent.show()()
	return n.nodeLister.HavePodsWithRequiredAntiAffinityList()
}

func (n lentNodes) Get(name string) (fwk.NodeInfo, error) {
	defer n.lent.show()()
	return n.nodeLister.Get(name)
}

type lentStorage struct{ lent *Lent }

func (s lentStorage) IsPVCUsedByPods(key string) bool {
	defer s.lent.show()()
	return storageLister{s.lent.Snapshot}.IsPVCUsedByPods(key)
}
