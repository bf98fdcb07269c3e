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

// Nominator remembers which pods have room promised on which node: by a
// preemption that waits for its victims to leave, or by the outside through
// status.nominatedNodeName.
type Nominator struct {
	state *nominations
}

var _ fwk.PodNominator = Nominator{}

type nominations struct {
	mu        sync.RWMutex
	byNode    map[string][]fwk.PodInfo
	nodeByPod map[types.UID]string
}

func newNominator() Nominator {
	return Nominator{&nominations{byNode: map[string][]fwk.PodInfo{}, nodeByPod: map[types.UID]string{}}}
}

// AddNominatedPod nominates a pod for the node that info names, or without one
// for the node that the pod's status names; info that overrides with no node
// nominates it for none.
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

// DeleteNominatedPodIfExists ends the pod's nomination, if it has one.
func (n Nominator) DeleteNominatedPodIfExists(pod *v1.Pod) {
	n.state.mu.Lock()
	defer n.state.mu.Unlock()
	n.state.remove(pod.UID)
}

// UpdateNominatedPod replaces a pod by its newer version. A nomination made in
// memory, which neither version's status holds yet, is kept.
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
// first. The slice is the caller's.
func (n Nominator) NominatedPodsForNode(node string) []fwk.PodInfo {
	n.state.mu.RLock()
	defer n.state.mu.RUnlock()
	return slices.Clone(n.state.byNode[node])
}

// NominatedNodes returns the nodes that pods are nominated for, whether they
// are there or not; nil without any.
func (n Nominator) NominatedNodes() []string {
	n.state.mu.RLock()
	defer n.state.mu.RUnlock()
	if len(n.state.byNode) == 0 {
		return nil
	}
	return slices.Collect(maps.Keys(n.state.byNode))
}

// NominatedNode returns the node that a pod is nominated for, "" when there is
// none. It may be known here before the pod's status says so.
func (n Nominator) NominatedNode(uid types.UID) string {
	n.state.mu.RLock()
	defer n.state.mu.RUnlock()
	return n.state.nodeByPod[uid]
}

// Nominations is how many pods are nominated.
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
}

func (s *nominations) remove(uid types.UID) {
	node, ok := s.nodeByPod[uid]
	if !ok {
		return
	}
	delete(s.nodeByPod, uid)
	s.byNode[node] = slices.DeleteFunc(s.byNode[node], func(p fwk.PodInfo) bool { return p.GetPod().UID == uid })
	if len(s.byNode[node]) == 0 {
		delete(s.byNode, node)
	}
}
