package podgroups

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// Quorum is whether a pod's group may be tried: what a PreEnqueue plugin asks for each pod,
// which does not depend on the number of pods.
type Quorum struct {
	// Known says that the group has a PodGroup, or needs none.
	Known bool
	// MinCount is how many pods must be scheduled together; 0 where that is not known, or
	// where the group is no gang.
	MinCount int
	// All is the number of pods.
	All int
}

// Missing says what the group with this key lacks so that it may be tried; "" where it lacks
// nothing.
func (q Quorum) Missing(key Key) string {
	switch {
	case !q.Known:
		return fmt.Sprintf("the PodGroup %s does not exist", key)
	case q.All < q.MinCount:
		return fmt.Sprintf("the pod's group has %d of at least %d pods", q.All, q.MinCount)
	}
	return ""
}

// QuorumOf returns the quorum of the group that a pod names; ok is false for a pod that
// names none.
func (s *Store) QuorumOf(pod *v1.Pod) (q Quorum, ok bool) {
	key, ok := KeyOf(pod)
	if !ok {
		return q, false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if group := s.groups[key]; group != nil {
		q.All = len(group.pods)
		if group.podGroup != nil {
			q.Known = true
			if gang := group.podGroup.Spec.SchedulingPolicy.Gang; gang != nil {
				q.MinCount = int(gang.MinCount)
			}
			return q, true
		}
	}
	if count, declared, _ := declaredMinCount(key.Source, pod); declared {
		q.Known, q.MinCount = true, int(count)
	}
	return q, true
}

// Progress is how many pods of a gang have a node.
type Progress struct {
	// IsGang says that the group's pods are to be scheduled together.
	IsGang              bool
	MinCount, Scheduled int
}

// ProgressOf returns the progress of the group that a pod names; ok is false for a pod that
// names none. It returns an error for a group without a PodGroup.
func (s *Store) ProgressOf(pod *v1.Pod) (p Progress, ok bool, err error) {
	key, ok := KeyOf(pod)
	if !ok {
		return p, false, nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	group := s.groups[key]
	if group == nil {
		return p, true, fmt.Errorf("group %s has no pods", key)
	}
	p.Scheduled = len(group.assumed) + len(group.assigned)
	if count, declared, err := declaredMinCount(key.Source, pod); declared {
		p.IsGang, p.MinCount = true, int(count)
		return p, true, err
	}
	if group.podGroup == nil {
		return p, true, fmt.Errorf("group %s has no PodGroup", key)
	}
	if gang := group.podGroup.Spec.SchedulingPolicy.Gang; gang != nil {
		p.IsGang, p.MinCount = true, int(gang.MinCount)
	}
	return p, true, nil
}
