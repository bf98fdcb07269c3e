package framework

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	fwk "k8s.io/kube-scheduler/framework"
)

// PodInfo is a pod with everything the cycle would otherwise derive from it
// again and again. It never changes once made, so it may be shared.
type PodInfo struct {
	pod                   *v1.Pod
	requiredAffinity      []fwk.AffinityTerm
	requiredAntiAffinity  []fwk.AffinityTerm
	preferredAffinity     []fwk.WeightedAffinityTerm
	preferredAntiAffinity []fwk.WeightedAffinityTerm
	request               Resource
	scoredCPU             int64
	scoredMemory          int64
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
	info := &PodInfo{pod: pod}
	info.request, info.scoredCPU, info.scoredMemory = podRequests(pod)
	return info, info.parseAffinity(pod.Spec.Affinity)
}

// parseAffinity fills the four lists and returns what could not be parsed.
func (p *PodInfo) parseAffinity(affinity *v1.Affinity) error {
	if affinity == nil {
		return nil
	}
	var together, apart []v1.WeightedPodAffinityTerm
	if affinity.PodAffinity != nil {
		together = affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	}
	if affinity.PodAntiAffinity != nil {
		apart = affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	}

	var malformed []error
	note := func(list string, err error) {
		if err != nil {
			malformed = append(malformed, fmt.Errorf("%s: %w", list, err))
		}
	}
	var err error
	p.requiredAffinity, err = fwk.GetAffinityTerms(p.pod, fwk.GetPodAffinityTerms(affinity))
	note("requiredAffinityTerms", err)
	p.requiredAntiAffinity, err = fwk.GetAffinityTerms(p.pod, fwk.GetPodAntiAffinityTerms(affinity))
	note("requiredAntiAffinityTerms", err)
	p.preferredAffinity, err = fwk.GetWeightedAffinityTerms(p.pod, together)
	note("preferredAffinityTerms", err)
	p.preferredAntiAffinity, err = fwk.GetWeightedAffinityTerms(p.pod, apart)
	note("preferredAntiAffinityTerms", err)
	return utilerrors.NewAggregate(malformed)
}

// Assigned returns the PodInfo of the same pod with spec.nodeName set to node.
// Only the outermost struct of the pod is copied: the rest is shared and stays
// read-only.
func (p *PodInfo) Assigned(node string) *PodInfo {
	pod := *p.pod
	pod.Spec.NodeName = node
	assigned := *p
	assigned.pod = &pod
	return &assigned
}

// GetPod returns the pod; it is read-only.
func (p *PodInfo) GetPod() *v1.Pod { return p.pod }

// GetRequiredAffinityTerms returns the parsed required affinity.
func (p *PodInfo) GetRequiredAffinityTerms() []fwk.AffinityTerm { return p.requiredAffinity }

// GetRequiredAntiAffinityTerms returns the parsed required anti-affinity.
func (p *PodInfo) GetRequiredAntiAffinityTerms() []fwk.AffinityTerm { return p.requiredAntiAffinity }

// GetPreferredAffinityTerms returns the parsed preferred affinity.
func (p *PodInfo) GetPreferredAffinityTerms() []fwk.WeightedAffinityTerm { return p.preferredAffinity }

// GetPreferredAntiAffinityTerms returns the parsed preferred anti-affinity.
func (p *PodInfo) GetPreferredAntiAffinityTerms() []fwk.WeightedAffinityTerm {
	return p.preferredAntiAffinity
}

// CalculateResource returns what the pod takes from a node, and the cpu
// (millicores) and memory (bytes) it is scored with. It was computed when the
// PodInfo was made.
func (p *PodInfo) CalculateResource() fwk.PodResource {
	return fwk.PodResource{Resource: &p.request, Non0CPU: p.scoredCPU, Non0Mem: p.scoredMemory}
}
