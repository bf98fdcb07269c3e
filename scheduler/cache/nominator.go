package cache

import (
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// Nominator holds which pods are nominated for which node: by preemption, while
// the victims terminate, or by another component through
// status.nominatedNodeName. It is safe for concurrent use.
type Nominator struct {
	state *nominations
}

var _ fwk.PodNominator = Nominator{}

type nominations struct {
	mu        sync.RWMutex
	byNode    map[string][]fwk.PodInfo
	nodeByPod map[types.UID]string
	// versions has the number of the last change of each node of byNode, changes that of the last
	// one of all.
	versions map[string]uint64
	changes  uint64
}

func newNominator() Nominator {
	return Nominator{&nominations{
		byNode: map[string][]fwk.PodInfo{}, nodeByPod: map[types.UID]string{}, versions: map[string]uint64{},
	}}
}

// AddNominatedPod nominates a pod for the node of info where info overrides, and
// for the pod's status.nominatedNodeName otherwise. An empty node removes the
// nomination.
func (n Nominator) AddNominatedPod(_ klog.Logger, pod fwk.PodInfo, info *fwk.NominatingInfo) {
	node := pod.GetPod().Status.NominatedNodeName
	if info.Mode() == fwk.ModeOverride {
		node = info.NominatedNodeName
	}
	n.state.mu.Lock()
	defer n.state.mu.Unlock()
	n.state.remove(pod.GetPod().UID)
	n.state.add(pod, node)
}

// DeleteNominatedPodIfExists removes the nomination of a pod, if it has one.
func (n Nominator) DeleteNominatedPodIfExists(pod *v1.Pod) {
	n.state.mu.Lock()
	defer n.state.mu.Unlock()
	n.state.remove(pod.UID)
}

// UpdateNominatedPod replaces a pod by its newer version. A nomination that
// neither version has in its status was made in memory and is kept.
func (n Nominator) UpdateNominatedPod(_ klog.Logger, oldPod *v1.Pod, newPod fwk.PodInfo) {
	n.state.mu.Lock()
	defer n.state.mu.Unlock()
	node := newPod.GetPod().Status.NominatedNodeName
	if node == "" && oldPod.Status.NominatedNodeName == "" {
		node = n.state.nodeByPod[oldPod.UID]
	}
	n.state.remove(oldPod.UID)
	n.state.add(newPod, node)
}

// NominatedPodsForNode returns the pods nominated for node, oldest nomination
// first. The caller owns the slice.
func (n Nominator) NominatedPodsForNode(node string) []fwk.PodInfo {
	n.state.mu.RLock()
	defer n.state.mu.RUnlock()
	return slices.Clone(n.state.byNode[node])
}

// NominationsVersion returns a number that changes with each change of
// NominatedPodsForNode(node), and is never used again but for 0, which says that there are none.
func (n Nominator) NominationsVersion(node string) uint64 {
	n.state.mu.RLock()
	defer n.state.mu.RUnlock()
	return n.state.versions[node]
}

// NominatedNodes returns the nodes that pods are nominated for, whether they
// exist or not; nil when no pod is nominated.
func (n Nominator) NominatedNodes() []string {
	n.state.mu.RLock()
	defer n.state.mu.RUnlock()
	if len(n.state.byNode) == 0 {
		return nil
	}
	return slices.Collect(maps.Keys(n.state.byNode))
}

// NominatedNode returns the node that a pod is nominated for, "" when it is
// nominated for none. The pod's status may not show it yet.
func (n Nominator) NominatedNode(uid types.UID) string {
	n.state.mu.RLock()
	defer n.state.mu.RUnlock()
	return n.state.nodeByPod[uid]
}

// Nominations returns the number of nominated pods.
func (n Nominator) Nominations() int {
	n.state.mu.RLock()
	defer n.state.mu.RUnlock()
	return len(n.state.nodeByPod)
}

func (s *nominations) add(pod fwk.PodInfo, node string) {
	if node == "" {
		return
	}
	s.nodeByPod[pod.GetPod().UID] = node
	s.byNode[node] = append(s.byNode[node], pod)
	s.changed(node)
}

func (s *nominations) remove(uid types.UID) {
	node, ok := s.nodeByPod[uid]
	if !ok {
		return
	}
	delete(s.nodeByPod, uid)
	s.byNode[node] = slices.DeleteFunc(s.byNode[node], func(p fwk.PodInfo) bool { return p.GetPod().UID == uid })
	s.changed(node)
}

// changed gives a node a new version, and forgets it where no pod is nominated for it.
func (s *nominations) changed(node string) {
	s.changes++
	s.versions[node] = s.changes
	if len(s.byNode[node]) == 0 {
		delete(s.byNode, node)
		delete(s.versions, node)
	}
}
