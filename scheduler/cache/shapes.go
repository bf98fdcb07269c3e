package cache

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/scheduler/framework"
)

// shapes sorts the pods that have a node by what selectors see of them: the
// namespace, whether they are being deleted, and the labels that some selector
// names. A selector is asked once for all pods of a shape, and a new set of
// pods is counted from its shapes instead of from all pods.
type selectorGroups struct {
	sets []*podSetCounts
	// keys are the labels that selectors name, sorted.
	labelKeys []string
	byKey     map[string]*selectorGroup
	// many says that there are too many shapes to count by them.
	tooMany   bool
	keyBuffer []byte // room for a key of known
}

// shape is what selectors see of some pods.
type selectorGroup struct {
	representative *v1.Pod
	// in are the sets that the pods are in.
	sets []*podSetCounts
	// nodes is how many of the pods are on the node in a slot.
	podsByNode map[framework.Slot]int32
}

// maxShapes bounds the shapes that pods are counted by.
const maxSelectorGroups = 1 << 14

// forget begins anew with sets.
func (s *selectorGroups) reset(sets map[string]*podSetCounts) {
	*s = selectorGroups{byKey: map[string]*selectorGroup{}, keyBuffer: s.keyBuffer}
	for _, set := range sets {
		s.sets = append(s.sets, set)
		s.addLabelKeys(set)
	}
}

// add takes in one more set and counts its pods.
func (s *selectorGroups) addSet(set *podSetCounts, columns *framework.Columns) {
	s.sets = append(s.sets, set)
	set.growTo(framework.Slot(len(columns.Nodes) - 1))
	if s.addLabelKeys(set) {
		// Pods that looked the same may not any more.
		s.regroup(columns)
	} else {
		for _, shape := range s.byKey {
			shape.addSetIfMatching(set)
		}
	}
	if s.tooMany {
		for slot, node := range columns.Nodes {
			if node != nil {
				set.byNode.BySlot[slot] = int32(set.CountOnNode(node))
			}
		}
		return
	}
	for _, shape := range s.byKey {
		if slices.Contains(shape.sets, set) {
			for slot, pods := range shape.podsByNode {
				set.byNode.BySlot[slot] += pods
			}
		}
	}
}

// learn notes the labels that the set's selector names, and reports whether
// one is new, or this is the first set.
func (s *selectorGroups) addLabelKeys(set *podSetCounts) bool {
	before := len(s.labelKeys)
	requirements, _ := set.Selector.Requirements()
	for i := range requirements {
		key := requirements[i].Key()
		if at, known := slices.BinarySearch(s.labelKeys, key); !known {
			s.labelKeys = slices.Insert(s.labelKeys, at, key)
		}
	}
	return len(s.labelKeys) > before || len(s.sets) == 1
}

// survey sorts all pods anew.
func (s *selectorGroups) regroup(columns *framework.Columns) {
	clear(s.byKey)
	s.tooMany = false
	for slot := range columns.Nodes {
		s.countNode(columns, framework.Slot(slot), 1, func(*podSetCounts) {})
	}
}

// node counts the pods of a node in, or out when by is -1, and calls each with
// every set that a pod is in.
func (s *selectorGroups) countNode(columns *framework.Columns, slot framework.Slot, by int32, each func(*podSetCounts)) {
	if len(s.sets) == 0 || columns.Nodes[slot] == nil {
		return
	}
	for _, pod := range columns.Nodes[slot].GetPods() {
		if info, ours := pod.(*framework.PodInfo); ours {
			for _, set := range s.countPod(slot, info, by) {
				each(set)
			}
		}
	}
}

// shift counts a pod on the node in slot in, or out when by is -1, and returns
// the sets that it is in. The slice is the shapes' own.
func (s *selectorGroups) countPod(slot framework.Slot, info *framework.PodInfo, by int32) []*podSetCounts {
	if len(s.sets) == 0 {
		return nil
	}
	shape := s.groupOf(info.OriginalPod())
	if s.tooMany {
		return shape.sets
	}
	if shape.podsByNode[slot] += by; shape.podsByNode[slot] == 0 {
		delete(shape.podsByNode, slot)
	}
	return shape.sets
}

// of returns the shape of a pod.
func (s *selectorGroups) groupOf(pod *v1.Pod) *selectorGroup {
	s.keyBuffer = framework.AppendLabels(append(append(s.keyBuffer[:0], pod.Namespace...), 0), pod.Labels, s.labelKeys)
	if pod.DeletionTimestamp != nil {
		s.keyBuffer = append(s.keyBuffer, 1)
	}
	if found, known := s.byKey[string(s.keyBuffer)]; known {
		return found
	}
	if len(s.byKey) >= maxSelectorGroups {
		clear(s.byKey)
		s.tooMany = true
	}
	made := &selectorGroup{representative: selectorView(pod), podsByNode: map[framework.Slot]int32{}}
	for _, set := range s.sets {
		made.addSetIfMatching(set)
	}
	s.byKey[string(s.keyBuffer)] = made
	return made
}

func (s *selectorGroup) addSetIfMatching(set *podSetCounts) {
	if set.Has(s.representative) {
		s.sets = append(s.sets, set)
	}
}

// outline is a pod with what selectors see, so that no shape holds a pod.
func selectorView(pod *v1.Pod) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Labels: pod.Labels, DeletionTimestamp: pod.DeletionTimestamp,
	}}
}
