package cache

import (
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// addImages counts a node's images in. Like upstream, an image has the size
// that the first node to report it gave.
func (s *Snapshot) addImages(n *nodeState) {
	node := n.Node()
	if len(node.Status.Images) == 0 {
		n.ImageStates = nil
		return
	}
	n.ImageStates = make(map[string]*fwk.ImageStateSummary, len(node.Status.Images))
	for _, image := range node.Status.Images {
		for _, name := range image.Names {
			state, ok := s.images[name]
			if !ok {
				state = &fwk.ImageStateSummary{Size: image.SizeBytes, Nodes: sets.New[string]()}
				s.images[name] = state
			}
			state.Nodes.Insert(node.Name)
			n.ImageStates[name] = &fwk.ImageStateSummary{Size: state.Size}
		}
	}
	s.imageEpoch++
}

// dropImages counts a node's images out.
func (s *Snapshot) removeImages(n *nodeState) {
	node := n.Node()
	if node == nil || len(node.Status.Images) == 0 {
		return
	}
	for _, image := range node.Status.Images {
		for _, name := range image.Names {
			state, ok := s.images[name]
			if !ok {
				continue
			}
			state.Nodes.Delete(node.Name)
			if len(state.Nodes) == 0 {
				delete(s.images, name)
			}
		}
	}
	n.ImageStates = nil
	s.imageEpoch++
}

// captureImages lets a node that changed learn on how many nodes its images
// are. Nodes that did not change keep the number they learned last: upstream
// captures it when it copies a node, and scores depend on it.
func (s *Snapshot) updateImageNodeCounts(n *nodeState) {
	if n.imageEpoch == s.imageEpoch {
		return
	}
	n.imageEpoch = s.imageEpoch
	for name, summary := range n.ImageStates {
		if state, ok := s.images[name]; ok {
			summary.NumNodes = len(state.Nodes)
		}
	}
}
