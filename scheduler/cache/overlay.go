package cache

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// Overlay are pods that count on nodes of a snapshot for a while: the members of a group
// while the others are decided. It changes the snapshot in place, as deltas do, and nothing
// but the snapshot. Only the scheduling loop may use it. It must remove each pod that it
// added, the last one first, before the next UpdateSnapshot, or call it in Suspend: then each
// list of pods has its former order again.
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

// Suspend removes the pods, each with its node, calls update, which may change the snapshot,
// and adds the pods again. It returns the nodes of these pods that are not as they were.
func (o *Overlay) Suspend(update func(pods []*framework.PodInfo)) (changed sets.Set[string]) {
	pods := slices.Clone(o.pods)
	for range pods {
		o.RemoveLast()
	}
	before := map[string]nodeContent{}
	for _, info := range pods {
		if _, kept := before[info.NodeName()]; !kept {
			before[info.NodeName()] = o.snapshot.contentOf(info.NodeName())
		}
	}
	changed = sets.New[string]()
	defer func() { // also where update panics
		for name, content := range before {
			if now := o.snapshot.contentOf(name); now.node != content.node || !slices.Equal(now.pods, content.pods) {
				changed.Insert(name)
			}
		}
		for _, info := range pods {
			o.Add(info, info.NodeName())
		}
	}()
	update(pods)
	return changed
}

// nodeContent is a node, nil where it does not exist, with its pods.
type nodeContent struct {
	node *v1.Node
	pods []fwk.PodInfo
}

func (s *Snapshot) contentOf(node string) nodeContent {
	if n := s.nodes[node]; n != nil {
		return nodeContent{n.Node(), slices.Clone(n.GetPods())}
	}
	return nodeContent{}
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
