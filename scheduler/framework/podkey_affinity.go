package framework

import (
	"encoding/binary"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func appendNodePreferences(key []byte, pod *v1.Pod) []byte {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return append(key, 0)
	}
	terms := pod.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	// Whether there is a list makes a difference, even if it is empty.
	key = binary.AppendUvarint(appendFlag(append(key, 1), terms != nil), uint64(len(terms)))
	for i := range terms {
		key = appendNodeTerm(binary.AppendVarint(key, int64(terms[i].Weight)), &terms[i].Preference)
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
		key = appendTerms(key, pod, near.RequiredDuringSchedulingIgnoredDuringExecution)
		key = appendWeighted(key, pod, near.PreferredDuringSchedulingIgnoredDuringExecution)
	} else {
		key = append(key, 0, 0)
	}
	if apart := affinity.PodAntiAffinity; apart != nil {
		key = appendTerms(key, pod, apart.RequiredDuringSchedulingIgnoredDuringExecution)
		key = appendWeighted(key, pod, apart.PreferredDuringSchedulingIgnoredDuringExecution)
	} else {
		key = append(key, 0, 0)
	}
	return key
}

func appendTerms(key []byte, pod *v1.Pod, terms []v1.PodAffinityTerm) []byte {
	key = binary.AppendUvarint(key, uint64(len(terms)))
	for i := range terms {
		key = appendWrittenTerm(key, pod, &terms[i])
	}
	return key
}

func appendWeighted(key []byte, pod *v1.Pod, terms []v1.WeightedPodAffinityTerm) []byte {
	key = binary.AppendUvarint(key, uint64(len(terms)))
	for i := range terms {
		key = appendWrittenTerm(binary.AppendVarint(key, int64(terms[i].Weight)), pod, &terms[i].PodAffinityTerm)
	}
	return key
}

func appendWrittenTerm(key []byte, pod *v1.Pod, term *v1.PodAffinityTerm) []byte {
	key = appendTexts(appendText(key, term.TopologyKey), term.Namespaces)
	key = appendLabelSelector(key, term.NamespaceSelector)
	key = appendLabelSelector(key, term.LabelSelector)
	return appendNamed(key, pod, term.LabelSelector)
}

// appendNamed appends what the pod has under the keys that selector names.
func appendNamed(key []byte, pod *v1.Pod, selector *metav1.LabelSelector) []byte {
	if selector == nil {
		return key
	}
	switch len(selector.MatchLabels) {
	case 0:
	case 1:
		for name := range selector.MatchLabels {
			key = appendValue(key, pod, name)
		}
	default:
		names := make([]string, 0, 8)
		for name := range selector.MatchLabels {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			key = appendValue(key, pod, name)
		}
	}
	for i := range selector.MatchExpressions {
		key = appendValue(key, pod, selector.MatchExpressions[i].Key)
	}
	return key
}

func appendValue(key []byte, pod *v1.Pod, name string) []byte {
	value, ok := pod.Labels[name]
	return appendText(appendFlag(key, ok), value)
}

func appendSpread(key []byte, pod *v1.Pod) []byte {
	key = binary.AppendUvarint(key, uint64(len(pod.Spec.TopologySpreadConstraints)))
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		key = binary.AppendVarint(appendText(appendText(key, c.TopologyKey), string(c.WhenUnsatisfiable)), int64(c.MaxSkew))
		if key = appendFlag(key, c.MinDomains != nil); c.MinDomains != nil {
			key = binary.AppendVarint(key, int64(*c.MinDomains))
		}
		for _, policy := range []*v1.NodeInclusionPolicy{c.NodeAffinityPolicy, c.NodeTaintsPolicy} {
			if key = appendFlag(key, policy != nil); policy != nil {
				key = appendText(key, string(*policy))
			}
		}
		key = appendNamed(appendLabelSelector(key, c.LabelSelector), pod, c.LabelSelector)
		key = appendTexts(key, c.MatchLabelKeys)
		for _, name := range c.MatchLabelKeys {
			key = appendValue(key, pod, name)
		}
	}
	return key
}
