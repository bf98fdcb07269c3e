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
type shapes struct {
	sets []*keptSet
	// keys are the labels that selectors name, sorted.
	keys  []string
	known map[string]*shape
	// many says that there are too many shapes to count by them.
	many bool
	text []byte // room for a key of known
}

// shape is what selectors see of some pods.
type shape struct {
	like *v1.Pod
	// in are the sets that the pods are in.
	in []*keptSet
	// nodes is how many of the pods are on the node in a slot.
	nodes map[framework.Slot]int32
}

// maxShapes bounds the shapes that pods are counted by.
const maxShapes = 1 << 14

// forget begins anew with sets.
func (s *shapes) forget(sets map[string]*keptSet) {
	*s = shapes{known: map[string]*shape{}, text: s.text}
	for _, set := range sets {
		s.sets = append(s.sets, set)
		s.learn(set)
	}
}

// add takes in one more set and counts its pods.
func (s *shapes) add(set *keptSet, columns *framework.Columns) {
	s.sets = append(s.sets, set)
	set.reach(framework.Slot(len(columns.Nodes) - 1))
	if s.learn(set) {
		// Pods that looked the same may not any more.
		s.survey(columns)
	} else {
		for _, shape := range s.known {
			shape.judge(set)
		}
	}
	if s.many {
		for slot, node := range columns.Nodes {
			if node != nil {
				set.nodes.By[slot] = int32(set.On(node))
			}
		}
		return
	}
	for _, shape := range s.known {
		if slices.Contains(shape.in, set) {
			for slot, pods := range shape.nodes {
				set.nodes.By[slot] += pods
			}
		}
	}
}

// learn notes the labels that the set's selector names, and reports whether
// one is new, or this is the first set.
func (s *shapes) learn(set *keptSet) bool {
	before := len(s.keys)
	requirements, _ := set.Selector.Requirements()
	for i := range requirements {
		key := requirements[i].Key()
		if at, known := slices.BinarySearch(s.keys, key); !known {
			s.keys = slices.Insert(s.keys, at, key)
		}
	}
	return len(s.keys) > before || len(s.sets) == 1
}

// survey sorts all pods anew.
func (s *shapes) survey(columns *framework.Columns) {
	clear(s.known)
	s.many = false
	for slot := range columns.Nodes {
		s.node(columns, framework.Slot(slot), 1, func(*keptSet) {})
	}
}

// node counts the pods of a node in, or out when by is -1, and calls each with
// every set that a pod is in.
func (s *shapes) node(columns *framework.Columns, slot framework.Slot, by int32, each func(*keptSet)) {
	if len(s.sets) == 0 || columns.Nodes[slot] == nil {
		return
	}
	for _, pod := range columns.Nodes[slot].GetPods() {
		if info, ours := pod.(*framework.PodInfo); ours {
			for _, set := range s.shift(slot, info, by) {
				each(set)
			}
		}
	}
}

// shift counts a pod on the node in slot in, or out when by is -1, and returns
// the sets that it is in. The slice is the shapes' own.
func (s *shapes) shift(slot framework.Slot, info *framework.PodInfo, by int32) []*keptSet {
	if len(s.sets) == 0 {
		return nil
	}
	shape := s.of(info.Unassigned())
	if s.many {
		return shape.in
	}
	if shape.nodes[slot] += by; shape.nodes[slot] == 0 {
		delete(shape.nodes, slot)
	}
	return shape.in
}

// of returns the shape of a pod.
func (s *shapes) of(pod *v1.Pod) *shape {
	s.text = framework.AppendLabels(append(append(s.text[:0], pod.Namespace...), 0), pod.Labels, s.keys)
	if pod.DeletionTimestamp != nil {
		s.text = append(s.text, 1)
	}
	if found, known := s.known[string(s.text)]; known {
		return found
	}
	if len(s.known) >= maxShapes {
		clear(s.known)
		s.many = true
	}
	made := &shape{like: outline(pod), nodes: map[framework.Slot]int32{}}
	for _, set := range s.sets {
		made.judge(set)
	}
	s.known[string(s.text)] = made
	return made
}

func (s *shape) judge(set *keptSet) {
	if set.Has(s.like) {
		s.in = append(s.in, set)
	}
}

// outline is a pod with what selectors see, so that no shape holds a pod.
func outline(pod *v1.Pod) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Labels: pod.Labels, DeletionTimestamp: pod.DeletionTimestamp,
	}}
}
