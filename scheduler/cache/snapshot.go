package cache

import (
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// Snapshot is the cluster as plugins see it. It moves in Cache.Refresh only.
type Snapshot struct {
	nodes map[string]*nodeState
	order *order
	// images are the images of all nodes, by name.
	images map[string]*fwk.ImageStateSummary
	// imageEpoch grows with every change to images.
	imageEpoch int64

	// list is every node in order; it is made anew when nodes come or go. Like
	// upstream's it is not when a node only changes its zone.
	list         []fwk.NodeInfo
	listed       int
	withAffinity []fwk.NodeInfo
	withAnti     []fwk.NodeInfo
}

// nodeState is a NodeInfo and what the snapshot remembers beside it.
type nodeState struct {
	*framework.NodeInfo
	listed     bool
	imageEpoch int64
}

func newSnapshot() *Snapshot {
	return &Snapshot{
		nodes:  map[string]*nodeState{},
		order:  newOrder(),
		images: map[string]*fwk.ImageStateSummary{},
	}
}

// Len is the number of nodes.
func (s *Snapshot) Len() int { return len(s.list) }

// Nodes returns all nodes in the order in which they are tried. The slice is
// the snapshot's own.
func (s *Snapshot) Nodes() []fwk.NodeInfo { return s.list }

// Node returns one node, nil when there is none of that name.
func (s *Snapshot) Node(name string) *framework.NodeInfo {
	if n, ok := s.nodes[name]; ok && n.Node() != nil {
		return n.NodeInfo
	}
	return nil
}

// apply lets changes take effect in the order in which they were noted.
func (s *Snapshot) apply(deltas []delta) {
	if len(deltas) == 0 {
		return
	}
	touched := map[string]bool{}
	affinity := false
	for _, d := range deltas {
		name := s.applyOne(d, &affinity)
		touched[name] = true
	}
	relist := false
	for name := range touched {
		n, ok := s.nodes[name]
		switch {
		case !ok:
		case n.Node() == nil && len(n.GetPods()) == 0 && !n.listed:
			delete(s.nodes, name)
		case n.Node() != nil:
			s.captureImages(n)
			relist = relist || !n.listed
		}
	}
	if relist || s.listed > len(s.order.nodes) {
		s.relist()
	} else if affinity {
		s.listAffinity()
	}
}

// applyOne changes one node and returns its name. affinity is set when a pod
// with inter-pod affinity came or went.
func (s *Snapshot) applyOne(d delta, affinity *bool) string {
	switch {
	case d.node != nil:
		n := s.node(d.node.Name)
		s.dropImages(n)
		s.order.set(d.node)
		n.SetNode(d.node)
		s.addImages(n)
		return d.node.Name
	case d.noNode != "":
		if n, ok := s.nodes[d.noNode]; ok {
			s.dropImages(n)
			s.order.remove(d.noNode)
			n.RemoveNode()
		}
		return d.noNode
	case d.pod != nil:
		pod := d.pod.GetPod()
		s.node(pod.Spec.NodeName).AddPodInfo(d.pod)
		*affinity = *affinity || pod.Spec.Affinity != nil
		return pod.Spec.NodeName
	default:
		pod := d.noPod.GetPod()
		// The delta log holds each removal behind its addition, so that the
		// pod is there.
		if err := s.node(pod.Spec.NodeName).RemovePod(klog.Background(), pod); err != nil {
			klog.ErrorS(err, "The cache lost count of a pod; please report this", "pod", klog.KObj(pod))
		}
		*affinity = *affinity || pod.Spec.Affinity != nil
		return pod.Spec.NodeName
	}
}

func (s *Snapshot) node(name string) *nodeState {
	n, ok := s.nodes[name]
	if !ok {
		n = &nodeState{NodeInfo: framework.NewNodeInfo()}
		s.nodes[name] = n
	}
	return n
}

// relist makes the list of nodes anew and drops what is left of nodes that
// went.
func (s *Snapshot) relist() {
	for name, n := range s.nodes {
		n.listed = n.Node() != nil
		if !n.listed && len(n.GetPods()) == 0 {
			delete(s.nodes, name)
		}
	}
	names := s.order.names()
	s.list = make([]fwk.NodeInfo, 0, len(names))
	for _, name := range names {
		s.list = append(s.list, s.nodes[name].NodeInfo)
	}
	s.listed = len(s.list)
	s.listAffinity()
}

func (s *Snapshot) listAffinity() {
	s.withAffinity, s.withAnti = nil, nil
	for _, n := range s.list {
		if len(n.GetPodsWithAffinity()) > 0 {
			s.withAffinity = append(s.withAffinity, n)
		}
		if len(n.GetPodsWithRequiredAntiAffinity()) > 0 {
			s.withAnti = append(s.withAnti, n)
		}
	}
}
