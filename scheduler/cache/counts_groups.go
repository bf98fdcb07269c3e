package cache

import (
	"iter"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/framework/counts"
	"github.com/berthdev/berth/scheduler/framework/podclass"
)

// selectorGroups groups the pods that have a node by what selectors read: the
// namespace, whether the pod is terminating, and the labels that some selector
// names. A selector is evaluated once per group, and a new set of pods is counted
// from its groups instead of from all pods.
type selectorGroups struct {
	sets []*podSetCounts
	// labelKeys are the labels that selectors name, sorted.
	labelKeys []string
	byKey     map[string]*selectorGroup
	// byLabel are the groups by each of these labels that their pods have.
	byLabel map[label][]*selectorGroup
	// tooMany says that there are more than maxSelectorGroups groups, so that
	// pods are not counted by group.
	tooMany   bool
	keyBuffer []byte // for a key of byKey
}

// label is a label of a pod.
type label struct{ key, value string }

// selectorGroup is a group of pods that are equal for all selectors.
type selectorGroup struct {
	representative *v1.Pod
	// sets are the sets that the pods belong to.
	sets []*podSetCounts
	// podsByNode is the number of the pods on each node, by slot.
	podsByNode map[counts.Slot]int32
}

// maxSelectorGroups limits the groups.
const maxSelectorGroups = 1 << 14

// reset starts again with the given sets and without pods.
func (s *selectorGroups) reset(sets map[string]*podSetCounts) {
	*s = selectorGroups{keyBuffer: s.keyBuffer}
	s.clear()
	for _, set := range sets {
		s.sets = append(s.sets, set)
		s.addLabelKeys(set)
	}
}

// clear removes all groups.
func (s *selectorGroups) clear() {
	s.byKey, s.byLabel = map[string]*selectorGroup{}, map[label][]*selectorGroup{}
}

// addSet adds a set and counts its pods.
func (s *selectorGroups) addSet(set *podSetCounts, columns *counts.Columns) {
	s.sets = append(s.sets, set)
	set.growTo(counts.Slot(len(columns.Nodes) - 1))
	if s.addLabelKeys(set) {
		// Pods of one group may differ in the new labels.
		s.regroup(columns)
	} else {
		for group := range s.candidates(set) {
			group.addSetIfMatching(set)
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
	for group := range s.candidates(set) {
		if last := len(group.sets) - 1; last >= 0 && group.sets[last] == set {
			for slot, pods := range group.podsByNode {
				set.byNode.BySlot[slot] += pods
			}
		}
	}
}

// candidates yields all groups whose pods may belong to set: those with a label
// that its selector requires, or all where it requires none. labelKeys must have
// the labels that the selector names.
func (s *selectorGroups) candidates(set *podSetCounts) iter.Seq[*selectorGroup] {
	requirements, _ := set.Selector.Requirements()
	for i := range requirements {
		r := &requirements[i]
		if values := r.ValuesUnsorted(); len(values) == 1 && (r.Operator() == selection.In || r.Operator() == selection.Equals || r.Operator() == selection.DoubleEquals) {
			return slices.Values(s.byLabel[label{r.Key(), values[0]}])
		}
	}
	return maps.Values(s.byKey)
}

// addLabelKeys adds the labels that the selector of set names. It reports whether
// one is new, or set is the first set.
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

// regroup groups all pods again.
func (s *selectorGroups) regroup(columns *counts.Columns) {
	s.clear()
	s.tooMany = false
	for slot := range columns.Nodes {
		s.countNode(columns, counts.Slot(slot), 1, func(*podSetCounts) {})
	}
}

// countNode adds the pods of a node, or subtracts them when by is -1, and calls
// each with every set that a pod belongs to.
func (s *selectorGroups) countNode(columns *counts.Columns, slot counts.Slot, by int32, each func(*podSetCounts)) {
	if len(s.sets) == 0 || columns.Nodes[slot] == nil {
		return
	}
	for _, pod := range columns.Nodes[slot].GetPods() {
		if info, ok := pod.(*framework.PodInfo); ok {
			for _, set := range s.countPod(slot, info, by) {
				each(set)
			}
		}
	}
}

// countPod adds a pod on the node in slot, or subtracts it when by is -1, and
// returns the sets that it belongs to. The caller must not change the slice.
func (s *selectorGroups) countPod(slot counts.Slot, info *framework.PodInfo, by int32) []*podSetCounts {
	if len(s.sets) == 0 {
		return nil
	}
	group := s.groupOf(info.OriginalPod())
	if s.tooMany {
		return group.sets
	}
	if group.podsByNode[slot] += by; group.podsByNode[slot] == 0 {
		delete(group.podsByNode, slot)
	}
	return group.sets
}

// groupOf returns the group of a pod.
func (s *selectorGroups) groupOf(pod *v1.Pod) *selectorGroup {
	s.keyBuffer = podclass.AppendLabels(append(append(s.keyBuffer[:0], pod.Namespace...), 0), pod.Labels, s.labelKeys)
	if pod.DeletionTimestamp != nil {
		s.keyBuffer = append(s.keyBuffer, 1)
	}
	if found, known := s.byKey[string(s.keyBuffer)]; known {
		return found
	}
	if len(s.byKey) >= maxSelectorGroups {
		s.clear()
		s.tooMany = true
	}
	made := &selectorGroup{representative: selectorView(pod), podsByNode: map[counts.Slot]int32{}}
	for _, set := range s.sets {
		made.addSetIfMatching(set)
	}
	s.byKey[string(s.keyBuffer)] = made
	for _, key := range s.labelKeys {
		if value, ok := pod.Labels[key]; ok {
			s.byLabel[label{key, value}] = append(s.byLabel[label{key, value}], made)
		}
	}
	return made
}

// addSetIfMatching adds set when the pods of the group belong to it.
func (s *selectorGroup) addSetIfMatching(set *podSetCounts) {
	if set.Has(s.representative) {
		s.sets = append(s.sets, set)
	}
}

// selectorView returns a pod with only what selectors read, so that no group
// keeps a whole pod in memory.
func selectorView(pod *v1.Pod) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Labels: pod.Labels, DeletionTimestamp: pod.DeletionTimestamp,
	}}
}
