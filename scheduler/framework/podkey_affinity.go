package framework

import (
	"encoding/binary"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func appendPreferredNodeAffinity(key []byte, pod *v1.Pod) []byte {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return append(key, 0)
	}
	terms := pod.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	// Whether there is a list makes a difference, even if it is empty.
	key = binary.AppendUvarint(appendBool(append(key, 1), terms != nil), uint64(len(terms)))
	for i := range terms {
		key = appendNodeSelectorTerm(binary.AppendVarint(key, int64(terms[i].Weight)), &terms[i].Preference)
	}
	return key
}

// appendPodAffinity appends the pod's terms, and what its own labels have
// under the keys that they name.
func appendPodAffinity(key []byte, pod *v1.Pod) []byte {
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.PodAffinity == nil && affinity.PodAntiAffinity == nil {
		return append(key, 0)
	}
	key = append(key, 1)
	if near := affinity.PodAffinity; near != nil {
		key = appendPodAffinityTerms(key, pod, near.RequiredDuringSchedulingIgnoredDuringExecution)
		key = appendWeightedPodAffinityTerms(key, pod, near.PreferredDuringSchedulingIgnoredDuringExecution)
	} else {
		key = append(key, 0, 0)
	}
	if apart := affinity.PodAntiAffinity; apart != nil {
		key = appendPodAffinityTerms(key, pod, apart.RequiredDuringSchedulingIgnoredDuringExecution)
		key = appendWeightedPodAffinityTerms(key, pod, apart.PreferredDuringSchedulingIgnoredDuringExecution)
	} else {
		key = append(key, 0, 0)
	}
	return key
}

func appendPodAffinityTerms(key []byte, pod *v1.Pod, terms []v1.PodAffinityTerm) []byte {
	key = binary.AppendUvarint(key, uint64(len(terms)))
	for i := range terms {
		key = appendPodAffinityTerm(key, pod, &terms[i])
	}
	return key
}

func appendWeightedPodAffinityTerms(key []byte, pod *v1.Pod, terms []v1.WeightedPodAffinityTerm) []byte {
	key = binary.AppendUvarint(key, uint64(len(terms)))
	for i := range terms {
		key = appendPodAffinityTerm(binary.AppendVarint(key, int64(terms[i].Weight)), pod, &terms[i].PodAffinityTerm)
	}
	return key
}

func appendPodAffinityTerm(key []byte, pod *v1.Pod, term *v1.PodAffinityTerm) []byte {
	key = appendStrings(appendString(key, term.TopologyKey), term.Namespaces)
	key = appendLabelSelector(key, term.NamespaceSelector)
	key = appendLabelSelector(key, term.LabelSelector)
	return appendSelectedLabels(key, pod, term.LabelSelector)
}

// appendNamed appends what the pod has under the keys that selector names.
func appendSelectedLabels(key []byte, pod *v1.Pod, selector *metav1.LabelSelector) []byte {
	if selector == nil {
		return key
	}
	switch len(selector.MatchLabels) {
	case 0:
	case 1:
		for name := range selector.MatchLabels {
			key = appendLabelValue(key, pod, name)
		}
	default:
		names := make([]string, 0, 8)
		for name := range selector.MatchLabels {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			key = appendLabelValue(key, pod, name)
		}
	}
	for i := range selector.MatchExpressions {
		key = appendLabelValue(key, pod, selector.MatchExpressions[i].Key)
	}
	return key
}

func appendLabelValue(key []byte, pod *v1.Pod, name string) []byte {
	value, ok := pod.Labels[name]
	return appendString(appendBool(key, ok), value)
}

func appendSpreadConstraints(key []byte, pod *v1.Pod) []byte {
	key = binary.AppendUvarint(key, uint64(len(pod.Spec.TopologySpreadConstraints)))
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		key = binary.AppendVarint(appendString(appendString(key, c.TopologyKey), string(c.WhenUnsatisfiable)), int64(c.MaxSkew))
		if key = appendBool(key, c.MinDomains != nil); c.MinDomains != nil {
			key = binary.AppendVarint(key, int64(*c.MinDomains))
		}
		for _, policy := range []*v1.NodeInclusionPolicy{c.NodeAffinityPolicy, c.NodeTaintsPolicy} {
			if key = appendBool(key, policy != nil); policy != nil {
				key = appendString(key, string(*policy))
			}
		}
		key = appendSelectedLabels(appendLabelSelector(key, c.LabelSelector), pod, c.LabelSelector)
		key = appendStrings(key, c.MatchLabelKeys)
		for _, name := range c.MatchLabelKeys {
			key = appendLabelValue(key, pod, name)
		}
	}
	return key
}
