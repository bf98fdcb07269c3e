package cycle

import v1 "k8s.io/api/core/v1"

// Key returns what tells the class of a pod; "" for one that is like no other.
func (m *EquivalenceCache) Key(pod *v1.Pod) string {
	if class := m.class(pod); class != nil {
		return class.key
	}
	return ""
}
