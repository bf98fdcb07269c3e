package framework

import (
	"errors"
	"fmt"
	"iter"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	fwk "k8s.io/kube-scheduler/framework"
)

// PodInfo is a pod with everything that a scheduling cycle derives from it. It
// is immutable and may be shared.
type PodInfo struct {
	*sharedPodInfo
	// pod is the pod given to NewPodInfo; node is its node, "" for a pending
	// pod.
	pod  *v1.Pod
	node string
	// noPortsOrClaims says that only the pod's requests count on a node.
	noPortsOrClaims bool
	// onlyCounts is as in CountingOn.
	onlyCounts bool
	// assigned caches pod with spec.nodeName set to node.
	assigned atomic.Pointer[v1.Pod]
}

// sharedPodInfo is what pods of the same class share.
type sharedPodInfo struct {
	AffinityTerms
	request      Resource
	scoredCPU    int64
	scoredMemory int64
	// countsCache belongs to the implementation of Counts, see CountsCache.
	countsCache any
}

var _ fwk.PodInfo = (*PodInfo)(nil)

// NewPodInfo derives a PodInfo from pod, which must not be changed afterwards.
//
// The API server accepts selectors that do not parse. Such a pod may run
// already, so the PodInfo can be used even then: each list with a malformed
// term is empty, and the error names it. Only for a nil pod the PodInfo is nil.
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

// ForPodOfSameClass returns the PodInfo of another pod of the same class,
// without deriving anything again.
func (p *PodInfo) ForPodOfSameClass(pod *v1.Pod) *PodInfo {
	return &PodInfo{sharedPodInfo: p.sharedPodInfo, pod: pod, node: pod.Spec.NodeName, noPortsOrClaims: usesNoPortsOrClaims(pod)}
}

// WithNode returns the PodInfo of the same pod with spec.nodeName set to node.
// The pod is copied at the first GetPod, and only its outermost struct; the
// rest is shared and read-only.
func (p *PodInfo) WithNode(node string) *PodInfo {
	return &PodInfo{sharedPodInfo: p.sharedPodInfo, pod: p.pod, node: node, noPortsOrClaims: p.noPortsOrClaims}
}

// CountingOn is WithNode for a pending pod that counts on a node while other pods are tried,
// and may not go there. It cannot be evicted: no node runs it, and nothing holds it there.
func (p *PodInfo) CountingOn(node string) *PodInfo {
	counting := p.WithNode(node)
	counting.onlyCounts = true
	return counting
}

// OnlyCounts reports whether p is a result of CountingOn.
func (p *PodInfo) OnlyCounts() bool { return p.onlyCounts }

// GetPod returns the pod, which is read-only.
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

// OriginalPod returns the pod given to NewPodInfo. Only its spec.nodeName may
// differ from GetPod's; it never copies.
func (p *PodInfo) OriginalPod() *v1.Pod { return p.pod }

// NodeName returns the pod's node, "" for a pending pod.
func (p *PodInfo) NodeName() string { return p.node }

func (p *PodInfo) GetRequiredAffinityTerms() []fwk.AffinityTerm          { return p.RequiredAffinity }
func (p *PodInfo) GetRequiredAntiAffinityTerms() []fwk.AffinityTerm      { return p.RequiredAntiAffinity }
func (p *PodInfo) GetPreferredAffinityTerms() []fwk.WeightedAffinityTerm { return p.PreferredAffinity }
func (p *PodInfo) GetPreferredAntiAffinityTerms() []fwk.WeightedAffinityTerm {
	return p.PreferredAntiAffinity
}

// CalculateResource returns the pod's requests, and the cpu (millicores) and
// memory (bytes) used for scoring. They were computed by NewPodInfo.
func (p *PodInfo) CalculateResource() fwk.PodResource {
	return fwk.PodResource{Resource: &p.request, Non0CPU: p.scoredCPU, Non0Mem: p.scoredMemory}
}

// Requests returns a copy of the pod's requests.
func (p *PodInfo) Requests() Resource { return p.request.Clone() }

// CountsCache is where the implementation of Counts stores what pods of the
// same class count for. Only the scheduling loop may read or write it.
func (p *PodInfo) CountsCache() *any { return &p.countsCache }

// OriginalPod returns info's pod without the copy that GetPod may make.
func OriginalPod(info fwk.PodInfo) *v1.Pod {
	if ours, ok := info.(*PodInfo); ok {
		return ours.pod
	}
	return info.GetPod()
}

// AffinityTerms are a pod's parsed affinity and anti-affinity terms.
type AffinityTerms struct {
	RequiredAffinity, RequiredAntiAffinity   []fwk.AffinityTerm
	PreferredAffinity, PreferredAntiAffinity []fwk.WeightedAffinityTerm
}

// TermKind is one of the four kinds of affinity terms.
type TermKind byte

// Kinds of affinity terms.
const (
	RequiredAffinity TermKind = iota
	RequiredAntiAffinity
	PreferredAffinity
	PreferredAntiAffinity
)

// AffinityTermsOf parses the terms of pod. A list with a malformed term is
// empty, and the error names the list.
func AffinityTermsOf(pod *v1.Pod) (AffinityTerms, error) {
	var parsed AffinityTerms
	affinity := pod.Spec.Affinity
	if affinity == nil {
		return parsed, nil
	}
	var preferred, avoided []v1.WeightedPodAffinityTerm
	if affinity.PodAffinity != nil {
		preferred = affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	}
	if affinity.PodAntiAffinity != nil {
		avoided = affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	}

	var malformed []error
	addError := func(list string, err error) {
		if err != nil {
			malformed = append(malformed, fmt.Errorf("%s: %w", list, err))
		}
	}
	var err error
	parsed.RequiredAffinity, err = fwk.GetAffinityTerms(pod, fwk.GetPodAffinityTerms(affinity))
	addError("requiredAffinityTerms", err)
	parsed.RequiredAntiAffinity, err = fwk.GetAffinityTerms(pod, fwk.GetPodAntiAffinityTerms(affinity))
	addError("requiredAntiAffinityTerms", err)
	parsed.PreferredAffinity, err = fwk.GetWeightedAffinityTerms(pod, preferred)
	addError("preferredAffinityTerms", err)
	parsed.PreferredAntiAffinity, err = fwk.GetWeightedAffinityTerms(pod, avoided)
	addError("preferredAntiAffinityTerms", err)
	return parsed, utilerrors.NewAggregate(malformed)
}

// HasTerms reports whether there are any terms.
func (a *AffinityTerms) HasTerms() bool {
	return len(a.RequiredAffinity)+len(a.RequiredAntiAffinity)+len(a.PreferredAffinity)+len(a.PreferredAntiAffinity) > 0
}

// Terms yields all terms with their kind; required terms have weight 1.
func (a *AffinityTerms) Terms() iter.Seq2[TermKind, *fwk.WeightedAffinityTerm] {
	return func(yield func(TermKind, *fwk.WeightedAffinityTerm) bool) {
		_ = eachRequired(RequiredAntiAffinity, a.RequiredAntiAffinity, yield) &&
			eachRequired(RequiredAffinity, a.RequiredAffinity, yield) &&
			eachPreferred(PreferredAffinity, a.PreferredAffinity, yield) &&
			eachPreferred(PreferredAntiAffinity, a.PreferredAntiAffinity, yield)
	}
}

// eachRequired and eachPreferred report whether to continue.
func eachRequired(kind TermKind, terms []fwk.AffinityTerm, yield func(TermKind, *fwk.WeightedAffinityTerm) bool) bool {
	for i := range terms {
		if !yield(kind, &fwk.WeightedAffinityTerm{AffinityTerm: terms[i], Weight: 1}) {
			return false
		}
	}
	return true
}

func eachPreferred(kind TermKind, terms []fwk.WeightedAffinityTerm, yield func(TermKind, *fwk.WeightedAffinityTerm) bool) bool {
	for i := range terms {
		if !yield(kind, &terms[i]) {
			return false
		}
	}
	return true
}

// SameForScheduling reports whether two versions of a pod are equal in what scheduling
// reads: labels, owners and spec. Both must have the form that the informer delivers.
// Annotations are ignored: many plugins write them in PreBind, and such a pod must not
// lose its attempt because the informer lags. kube-scheduler binds it as well.
func SameForScheduling(a, b *v1.Pod) bool {
	return a == b || a.UID == b.UID &&
		equality.Semantic.DeepEqual(a.Labels, b.Labels) &&
		equality.Semantic.DeepEqual(a.OwnerReferences, b.OwnerReferences) &&
		equality.Semantic.DeepEqual(a.Spec, b.Spec)
}
