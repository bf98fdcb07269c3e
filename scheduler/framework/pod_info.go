package framework

import (
	"errors"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// PodInfo is a pod with everything the cycle would otherwise derive from it
// again and again. It never changes once made, so it may be shared.
type PodInfo struct {
	*sharedPodInfo
	// pod is the pod as it was given; node is where it is, "" while it waits.
	pod  *v1.Pod
	node string
	// bare says that nothing of the pod but its requests counts on a node.
	noPortsOrClaims bool
	// assigned is pod with node, made when somebody asks for it.
	assigned atomic.Pointer[v1.Pod]
}

// traits is what pods of the same spec have in common.
type sharedPodInfo struct {
	AffinityTerms
	request      Resource
	scoredCPU    int64
	scoredMemory int64
	// kept is room for whoever counts the pods that have a node.
	countsCache any
}

var _ fwk.PodInfo = (*PodInfo)(nil)

// NewPodInfo derives a PodInfo from pod, which must not be changed afterwards.
//
// The API server lets selectors through that do not parse. Such a pod may be
// running already, so the PodInfo is good even then: the lists with a
// malformed term are empty and the error names them. Only a nil pod gives no
// PodInfo.
func NewPodInfo(pod *v1.Pod) (*PodInfo, error) {
	if pod == nil {
		return nil, errors.New("pod: is nil, want a pod")
	}
	t := &sharedPodInfo{}
	t.request, t.scoredCPU, t.scoredMemory = podRequests(pod)
	var err error
	t.AffinityTerms, err = AffinityTermsOf(pod)
	return &PodInfo{sharedPodInfo: t, pod: pod, node: pod.Spec.NodeName, noPortsOrClaims: usesNoPortsOrClaims(pod)}, err
}

// Like returns the PodInfo of a pod from which the same is derived as from p's
// pod: one of the same class.
func (p *PodInfo) ForPodOfSameClass(pod *v1.Pod) *PodInfo {
	return &PodInfo{sharedPodInfo: p.sharedPodInfo, pod: pod, node: pod.Spec.NodeName, noPortsOrClaims: usesNoPortsOrClaims(pod)}
}

// Assigned returns the PodInfo of the same pod with spec.nodeName set to node.
// The pod with that name is made when it is asked for; only the outermost
// struct is copied then, the rest is shared and stays read-only.
func (p *PodInfo) WithNode(node string) *PodInfo {
	return &PodInfo{sharedPodInfo: p.sharedPodInfo, pod: p.pod, node: node, noPortsOrClaims: p.noPortsOrClaims}
}

// GetPod returns the pod; it is read-only.
func (p *PodInfo) GetPod() *v1.Pod {
	if p.node == p.pod.Spec.NodeName {
		return p.pod
	}
	if made := p.assigned.Load(); made != nil {
		return made
	}
	pod := *p.pod
	pod.Spec.NodeName = p.node
	p.assigned.CompareAndSwap(nil, &pod)
	return p.assigned.Load()
}

// Unassigned returns the pod as it was given to NewPodInfo, of which only
// spec.nodeName may differ from GetPod's. It costs nothing.
func (p *PodInfo) OriginalPod() *v1.Pod { return p.pod }

// Node returns the pod's node, "" while it waits.
func (p *PodInfo) NodeName() string { return p.node }

// GetRequiredAffinityTerms returns the parsed required affinity.
func (p *PodInfo) GetRequiredAffinityTerms() []fwk.AffinityTerm { return p.RequiredAffinity }

// GetRequiredAntiAffinityTerms returns the parsed required anti-affinity.
func (p *PodInfo) GetRequiredAntiAffinityTerms() []fwk.AffinityTerm { return p.RequiredAntiAffinity }

// GetPreferredAffinityTerms returns the parsed preferred affinity.
func (p *PodInfo) GetPreferredAffinityTerms() []fwk.WeightedAffinityTerm { return p.PreferredAffinity }

// GetPreferredAntiAffinityTerms returns the parsed preferred anti-affinity.
func (p *PodInfo) GetPreferredAntiAffinityTerms() []fwk.WeightedAffinityTerm {
	return p.PreferredAntiAffinity
}

// CalculateResource returns what the pod takes from a node, and the cpu
// (millicores) and memory (bytes) it is scored with. It was computed when the
// PodInfo was made.
func (p *PodInfo) CalculateResource() fwk.PodResource {
	return fwk.PodResource{Resource: &p.request, Non0CPU: p.scoredCPU, Non0Mem: p.scoredMemory}
}

// Requests is what the pod asks for, as a copy.
func (p *PodInfo) Requests() Resource { return p.request.Clone() }

// Kept is where whoever counts the pods that have a node may remember what
// pods with the same spec count for. Only the loop reads and writes it.
func (p *PodInfo) CountsCache() *any { return &p.countsCache }

// plainPod returns info's pod without making it when it is only assumed.
func originalPod(info fwk.PodInfo) *v1.Pod {
	if ours, ok := info.(*PodInfo); ok {
		return ours.pod
	}
	return info.GetPod()
}
