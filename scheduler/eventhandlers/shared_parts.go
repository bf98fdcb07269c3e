package eventhandlers

import (
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxSharedParts is how many parts of each kind are kept in each of two generations.
const maxSharedParts = 2048

// maxSharedSize is the size in bytes of the largest part that is kept. Larger ones are lists, such
// as that of the images on a node, which differ from one object to the next.
const maxSharedSize = 4096

// sharedParts are parts of pods and nodes that many have, such as the containers of the pods of a
// Deployment: these are decoded once, and shared. It is safe for concurrent use.
// Nobody may change an object of an informer, and Trim does not change what is trimmed.
type sharedParts struct {
	mu    sync.Mutex
	metas recent[*metav1.ObjectMeta]
	specs recent[*v1.PodSpec]
	nodes recent[*v1.NodeStatus]
	// annotations are those of nodes, labels the keys and values of their labels.
	annotations recent[map[string]string]
	labels      recent[string]
}

// addToPod adds to a pod the parts that were split off from its message.
func (s *sharedParts) addToPod(pod *v1.Pod, split *parts) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if bytes := split[sharedMeta]; len(bytes) > 0 {
		meta, err := s.metas.get(bytes, func() (*metav1.ObjectMeta, error) {
			meta := &metav1.ObjectMeta{}
			return meta, meta.Unmarshal(bytes)
		})
		if err != nil {
			return fmt.Errorf("decoding the metadata of a pod: %w", err)
		}
		pod.Labels, pod.OwnerReferences = meta.Labels, meta.OwnerReferences
	}
	if bytes := split[sharedSpec]; len(bytes) > 0 {
		spec, err := s.specs.get(bytes, func() (*v1.PodSpec, error) {
			spec := &v1.PodSpec{}
			return spec, spec.Unmarshal(bytes)
		})
		if err != nil {
			return fmt.Errorf("decoding the spec of a pod: %w", err)
		}
		volumes, node := pod.Spec.Volumes, pod.Spec.NodeName
		pod.Spec = *spec
		pod.Spec.Volumes, pod.Spec.NodeName = volumes, node
	}
	return nil
}

// addToNode adds to a node the parts that were split off from its message. The labels of a node
// are its own, since one of them is its name, but most keys and values are not.
func (s *sharedParts) addToNode(node *v1.Node, split *parts) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	node.Labels = s.withSharedStrings(node.Labels, node.Name)
	if bytes := split[sharedAnnotations]; len(bytes) > 0 {
		node.Annotations, err = s.annotations.get(bytes, func() (map[string]string, error) {
			meta := metav1.ObjectMeta{}
			err := meta.Unmarshal(bytes)
			return meta.Annotations, err
		})
		if err != nil {
			return fmt.Errorf("decoding the annotations of a node: %w", err)
		}
	}
	if bytes := split[sharedNodeStatus]; len(bytes) > 0 {
		status, err := s.nodes.get(bytes, func() (*v1.NodeStatus, error) {
			status := &v1.NodeStatus{}
			return status, status.Unmarshal(bytes)
		})
		if err != nil {
			return fmt.Errorf("decoding the status of a node: %w", err)
		}
		node.Status = *status
	}
	return nil
}

// withSharedStrings returns labels whose keys and values other nodes have too; a value that is
// the node's name is that string.
func (s *sharedParts) withSharedStrings(labels map[string]string, node string) map[string]string {
	if labels == nil {
		return nil
	}
	share := func(text string) string {
		shared, _ := s.labels.get([]byte(text), func() (string, error) { return text, nil })
		return shared
	}
	shared := make(map[string]string, len(labels))
	for key, value := range labels {
		if value == node {
			shared[share(key)] = node
		} else {
			shared[share(key)] = share(value)
		}
	}
	return shared
}

// recent keeps values by the bytes that they were decoded from: those that were asked for
// last, between maxSharedParts and twice as many. It keeps no value of more than maxSharedSize
// bytes.
type recent[T any] struct{ young, old map[string]T }

// get returns the value of these bytes, which decode makes if it is not kept.
func (r *recent[T]) get(bytes []byte, decode func() (T, error)) (T, error) {
	if len(bytes) > maxSharedSize {
		return decode()
	}
	if value, is := r.young[string(bytes)]; is {
		return value, nil
	}
	value, is := r.old[string(bytes)]
	if !is {
		var err error
		if value, err = decode(); err != nil {
			return value, err
		}
	}
	if len(r.young) >= maxSharedParts {
		r.old, r.young = r.young, nil
	}
	if r.young == nil {
		r.young = map[string]T{}
	}
	r.young[string(bytes)] = value
	return value, nil
}
