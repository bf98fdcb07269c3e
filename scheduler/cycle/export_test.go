package cycle

import v1 "k8s.io/api/core/v1"

// Key returns the key of the pod's class; "" if it belongs to none.
func (m *EquivalenceCache) Key(pod *v1.Pod) string {
	if class := m.class(pod); class != nil {
		return class.key
	}
	return ""
}
