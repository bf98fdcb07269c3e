package cache

import (
	"github.com/berthdev/berth/scheduler/framework"
)

// Overlay are pods that count on nodes of a snapshot for a while: the members of a group
// while the others are decided. It changes the snapshot in place, as deltas do, and nothing
// but the snapshot. Only the scheduling loop may use it. It must remove each pod that it
// added, the last one first, before the next UpdateSnapshot: then each list of pods has its
// former order again.
type Overlay struct {
	snapshot *Snapshot
	pods     []*framework.PodInfo
}

// NewOverlay returns an empty overlay.
func (s *Snapshot) NewOverlay() *Overlay { return &Overlay{snapshot: s} }

// Add counts a pod on a node.
func (o *Overlay) Add(info *framework.PodInfo, node string) {
	assigned := info.WithNode(node)
	o.pods = append(o.pods, assigned)
	o.snapshot.change(func(s *Snapshot) *nodeState { return s.addPod(assigned) })
}

// RemoveLast removes the pod that was added last.
func (o *Overlay) RemoveLast() {
	last := o.pods[len(o.pods)-1]
	o.pods = o.pods[:len(o.pods)-1]
	o.snapshot.change(func(s *Snapshot) *nodeState { return s.removePod(last) })
}

// change makes one change of the pods of a node.
func (s *Snapshot) change(apply func(*Snapshot) *nodeState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readByAbandonedCall {
		s.replaceNodeInfos()
	}
	s.changes++
	if n := apply(s); n.counted {
		s.columns.UpdateResources(n.slot)
	}
}
