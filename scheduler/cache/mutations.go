package cache

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// mutations are the nodes as they were before a session of mutations.
type mutations struct {
	// pods are those of the nodes that were changed, images those of all nodes.
	pods   map[string]framework.PlacedPods
	images map[*nodeState]map[string]*fwk.ImageStateSummary
}

// A Snapshot can be changed by PodGroupPostFilter plugins, which find out in it whether a
// group fits without some pods. Only the nodes that they change are copied.
var _ framework.MutableSnapshot = &Snapshot{}

// StartMutations begins a session of AddPod and RemovePod. It must end before the next
// UpdateSnapshot. Only the scheduling loop may call it.
//
// Until the session ends the nodes have no images: kube-scheduler copies the snapshot, and
// its copies do not know on how many nodes an image is, so that no image counts in scores.
func (s *Snapshot) StartMutations() error {
	if s.mutated != nil {
		return errors.New("a session of mutations has begun already")
	}
	s.startMutations()
	return nil
}

func (s *Snapshot) startMutations() {
	s.mutated = &mutations{pods: map[string]framework.PlacedPods{}, images: map[*nodeState]map[string]*fwk.ImageStateSummary{}}
	for _, n := range s.nodes {
		if len(n.ImageStates) > 0 {
			s.mutated.images[n] = n.ImageStates
			s.setImages(n, nil)
		}
	}
}

// EndMutations ends the session. Each node has the pods that it had before, in their order.
func (s *Snapshot) EndMutations() error {
	if s.mutated == nil {
		return errors.New("no session of mutations has begun")
	}
	s.endMutations()
	return nil
}

func (s *Snapshot) endMutations() {
	for node, before := range s.mutated.pods {
		s.change(func(s *Snapshot) *nodeState { return s.restorePods(node, before) })
	}
	for n, images := range s.mutated.images {
		s.setImages(n, images)
	}
	s.mutated = nil
}

// SuspendMutations implements framework.MutableSnapshot: it ends the session, calls update, which
// may change the snapshot, and begins another one with the same changes: pods that are on another
// node now, or on none, stay so. Without a session it only calls update.
func (s *Snapshot) SuspendMutations(update func()) {
	if s.mutated == nil {
		update()
		return
	}
	var changes []changedPods
	for _, node := range slices.Sorted(maps.Keys(s.mutated.pods)) {
		before, now := s.mutated.pods[node].All(), s.nodes[node].GetPods()
		changes = append(changes, changedPods{node, podsWithout(now, uidsOf(before)), uidsOf(before).Difference(uidsOf(now))})
	}
	s.endMutations()
	defer s.resumeMutations(changes) // also where update panics
	update()
}

// changedPods are the pods of a node that a session has added and removed.
type changedPods struct {
	node    string
	added   []fwk.PodInfo
	removed sets.Set[types.UID]
}

// resumeMutations begins a session with these changes.
func (s *Snapshot) resumeMutations(changes []changedPods) {
	s.startMutations()
	for _, c := range changes {
		if s.keepPods(c.node) != nil {
			continue // the node was removed
		}
		now := slices.Clone(s.nodes[c.node].GetPods())
		for _, info := range now {
			if c.removed.Has(framework.OriginalPod(info).UID) {
				s.change(func(s *Snapshot) *nodeState { return s.removePod(info.(*framework.PodInfo)) })
			}
		}
		for _, info := range podsWithout(c.added, uidsOf(now)) {
			s.change(func(s *Snapshot) *nodeState { return s.addPod(info.(*framework.PodInfo)) })
		}
	}
}

func uidsOf(pods []fwk.PodInfo) sets.Set[types.UID] {
	uids := sets.New[types.UID]()
	for _, info := range pods {
		uids.Insert(framework.OriginalPod(info).UID)
	}
	return uids
}

// podsWithout returns the pods that are not among others.
func podsWithout(pods []fwk.PodInfo, others sets.Set[types.UID]) (without []fwk.PodInfo) {
	for _, info := range pods {
		if !others.Has(framework.OriginalPod(info).UID) {
			without = append(without, info)
		}
	}
	return without
}

func (s *Snapshot) setImages(n *nodeState, images map[string]*fwk.ImageStateSummary) {
	s.change(func(*Snapshot) *nodeState {
		n.ImageStates = images
		return n
	})
}

// AddPod counts a pod on a node until the session ends.
func (s *Snapshot) AddPod(pod fwk.PodInfo, node string) error {
	if err := s.keepPods(node); err != nil {
		return err
	}
	info, ok := pod.(*framework.PodInfo)
	if !ok {
		info, _ = framework.NewPodInfo(pod.GetPod()) // a malformed term counts as none, as everywhere
	}
	if info.NodeName() != node {
		info = info.WithNode(node)
	}
	s.change(func(s *Snapshot) *nodeState { return s.addPod(info) })
	return nil
}

// RemovePod does not count a pod on its node until the session ends.
func (s *Snapshot) RemovePod(_ klog.Logger, pod *v1.Pod, node string) error {
	if err := s.keepPods(node); err != nil {
		return err
	}
	for _, info := range s.nodes[node].GetPods() { // of a pod that is there twice removePod chooses one
		if found := info.(*framework.PodInfo); found.OriginalPod().UID == pod.UID {
			s.change(func(s *Snapshot) *nodeState { return s.removePod(found) })
			return nil
		}
	}
	return fmt.Errorf("pod %s/%s with UID %s is not on node %s", pod.Namespace, pod.Name, pod.UID, node)
}

// RemovedPod implements framework.MutableSnapshot.
func (s *Snapshot) RemovedPod(pod types.UID, node string) fwk.PodInfo {
	hasUID := func(info fwk.PodInfo) bool { return framework.OriginalPod(info).UID == pod }
	if n := s.Node(node); s.mutated == nil || n == nil || slices.ContainsFunc(n.GetPods(), hasUID) {
		return nil
	}
	before := s.mutated.pods[node].All()
	if at := slices.IndexFunc(before, hasUID); at >= 0 {
		return before[at]
	}
	return nil
}

// keepPods keeps the pods of a node before the first mutation of it.
func (s *Snapshot) keepPods(node string) error {
	if s.mutated == nil {
		return errors.New("the snapshot can be changed only between StartMutations and EndMutations")
	}
	n := s.nodes[node]
	if n == nil {
		return fmt.Errorf("nodeinfo not found for node name %q", node)
	}
	if _, kept := s.mutated.pods[node]; !kept {
		s.mutated.pods[node] = n.PlacedPods()
	}
	return nil
}

// restorePods gives a node the pods that it had before. A pod that was added in another version is
// replaced: its requests and labels may differ, and the sums and counts must be those of its PodInfo.
func (s *Snapshot) restorePods(node string, before framework.PlacedPods) *nodeState {
	n := s.nodes[node]
	now := slices.Clone(n.GetPods())
	changed := changedUIDs(before.All(), now)
	for _, info := range now {
		if changed.Has(framework.OriginalPod(info).UID) {
			s.removePod(info.(*framework.PodInfo))
		}
	}
	for _, info := range before.All() {
		if changed.Has(framework.OriginalPod(info).UID) {
			s.addPod(info.(*framework.PodInfo))
		}
	}
	n.SetPlacedPods(before)
	return n
}

// changedUIDs returns the UIDs of the PodInfos that before and now do not have equally often.
func changedUIDs(before, now []fwk.PodInfo) sets.Set[types.UID] {
	added := map[fwk.PodInfo]int{}
	for _, info := range before {
		added[info]--
	}
	for _, info := range now {
		added[info]++
	}
	changed := sets.New[types.UID]()
	for info, times := range added {
		if times != 0 {
			changed.Insert(framework.OriginalPod(info).UID)
		}
	}
	return changed
}
