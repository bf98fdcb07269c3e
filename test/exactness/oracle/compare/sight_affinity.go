package compare

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/test/replay/generate"
)

const rack = generate.Rack

func (s *sight) seeks() bool     { return len(s.info.GetRequiredAffinityTerms()) > 0 }
func (s *sight) shuns() bool     { return len(s.info.GetRequiredAntiAffinityTerms()) > 0 }
func (s *sight) wouldSeek() bool { return len(s.info.GetPreferredAffinityTerms()) > 0 }
func (s *sight) wouldShun() bool { return len(s.info.GetPreferredAntiAffinityTerms()) > 0 }

// labelsOf are the labels of a namespace, none when it is not known.
func (s *sight) labelsOf(namespace string) labels.Set {
	if found, err := s.others.Core().V1().Namespaces().Lister().Get(namespace); err == nil {
		return found.Labels
	}
	return nil
}

// means reports whether one of terms means the pod.
func (s *sight) means(terms []fwk.AffinityTerm, pod *v1.Pod) bool {
	namespace := s.labelsOf(pod.Namespace)
	return slices.ContainsFunc(terms, func(t fwk.AffinityTerm) bool { return t.Matches(pod, namespace) })
}

func (s *sight) shunned() bool {
	return s.anyPod(func(other fwk.PodInfo) bool { return s.means(other.GetRequiredAntiAffinityTerms(), s.pod) })
}

func (s *sight) sought() bool {
	return s.affinity != nil && *s.affinity.HardPodAffinityWeight > 1 &&
		s.anyPod(func(other fwk.PodInfo) bool { return s.means(other.GetRequiredAffinityTerms(), s.pod) })
}

// likes reports whether placed pods prefer the pod near, or not near.
func (s *sight) likes() bool {
	return s.anyPod(func(other fwk.PodInfo) bool {
		for _, t := range slices.Concat(other.GetPreferredAffinityTerms(), other.GetPreferredAntiAffinityTerms()) {
			if t.Matches(s.pod, s.labelsOf(s.pod.Namespace)) {
				return true
			}
		}
		return false
	})
}

func (s *sight) liked() bool {
	return s.affinity != nil && !s.affinity.IgnorePreferredTermsOfExistingPods && s.likes()
}

func (s *sight) likesIgnored() bool {
	return s.affinity != nil && s.affinity.IgnorePreferredTermsOfExistingPods && !s.wouldSeek() && !s.wouldShun() && s.likes()
}

// term reports whether one of the pod's terms, required or preferred, is such.
func (s *sight) term(such func(*v1.PodAffinityTerm) bool) bool {
	if s.pod.Spec.Affinity == nil {
		return false
	}
	var required []v1.PodAffinityTerm
	var preferred []v1.WeightedPodAffinityTerm
	if a := s.pod.Spec.Affinity.PodAffinity; a != nil {
		required, preferred = a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution
	}
	if a := s.pod.Spec.Affinity.PodAntiAffinity; a != nil {
		required = slices.Concat(required, a.RequiredDuringSchedulingIgnoredDuringExecution)
		preferred = slices.Concat(preferred, a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return slices.ContainsFunc(required, func(t v1.PodAffinityTerm) bool { return such(&t) }) ||
		slices.ContainsFunc(preferred, func(t v1.WeightedPodAffinityTerm) bool { return such(&t.PodAffinityTerm) })
}

func (s *sight) namedNamespaces() bool {
	return s.term(func(t *v1.PodAffinityTerm) bool { return len(t.Namespaces) > 0 })
}

func (s *sight) labelledNamespaces() bool {
	return s.term(func(t *v1.PodAffinityTerm) bool {
		return t.NamespaceSelector != nil && len(t.NamespaceSelector.MatchLabels)+len(t.NamespaceSelector.MatchExpressions) > 0
	})
}

func (s *sight) allNamespaces() bool {
	return s.term(func(t *v1.PodAffinityTerm) bool {
		return t.NamespaceSelector != nil && len(t.NamespaceSelector.MatchLabels)+len(t.NamespaceSelector.MatchExpressions) == 0
	})
}

func (s *sight) matchKeys() bool {
	return s.term(func(t *v1.PodAffinityTerm) bool { return len(t.MatchLabelKeys) > 0 })
}

func (s *sight) mismatchKeys() bool {
	return s.term(func(t *v1.PodAffinityTerm) bool { return len(t.MismatchLabelKeys) > 0 })
}

func (s *sight) gatherByRack() bool {
	return s.term(func(t *v1.PodAffinityTerm) bool { return t.TopologyKey == rack })
}

// all reports whether every required affinity term of the pod means another.
func (s *sight) all(other *v1.Pod) bool {
	for _, t := range s.info.GetRequiredAffinityTerms() {
		if !t.Matches(other, s.labelsOf(other.Namespace)) {
			return false
		}
	}
	return s.seeks()
}

func (s *sight) first() bool {
	return s.all(s.pod) && !s.anyPod(func(other fwk.PodInfo) bool { return s.all(other.GetPod()) })
}

func (s *sight) leaverCounted() bool {
	return s.anyPod(func(other fwk.PodInfo) bool {
		pod := other.GetPod()
		return pod.DeletionTimestamp != nil && (s.all(pod) || s.means(s.info.GetRequiredAntiAffinityTerms(), pod))
	})
}
