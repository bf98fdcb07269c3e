package podclass

import (
	"encoding/binary"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework/counts"
)

// The functions of this file append values to a key such that two keys are
// equal only if all values are: strings are preceded by their length, lists by
// their number of items. Where order has no meaning, values are sorted.

func appendString(key []byte, text string) []byte {
	return append(binary.AppendUvarint(key, uint64(len(text))), text...)
}

func appendStrings(key []byte, texts []string) []byte {
	key = binary.AppendUvarint(key, uint64(len(texts)))
	for _, text := range texts {
		key = appendString(key, text)
	}
	return key
}

// appendMap appends the entries sorted by key.
func appendMap(key []byte, pairs map[string]string) []byte {
	key = binary.AppendUvarint(key, uint64(len(pairs)))
	switch len(pairs) {
	case 0:
	case 1:
		for name, value := range pairs {
			key = appendString(appendString(key, name), value)
		}
	default:
		for _, name := range slices.Sorted(maps.Keys(pairs)) {
			key = appendString(appendString(key, name), pairs[name])
		}
	}
	return key
}

func appendBool(key []byte, flag bool) []byte {
	if flag {
		return append(key, 1)
	}
	return append(key, 0)
}

// AppendLabels appends the values that set has for keys, which are sorted. Two
// results can only be compared if keys were the same.
func AppendLabels(key []byte, set map[string]string, keys []string) []byte {
	if len(keys) > 2*len(set) {
		return appendLabelsOfSmallSet(key, set, keys)
	}
	for i, name := range keys {
		if value, ok := set[name]; ok {
			key = appendString(binary.AppendUvarint(key, uint64(i)+1), value)
		}
	}
	return append(key, 0)
}

// appendLabelsOfSmallSet is AppendLabels for a set that is much smaller than
// keys.
func appendLabelsOfSmallSet(key []byte, set map[string]string, keys []string) []byte {
	var buffer [8]int
	indexes := buffer[:0]
	for name := range set {
		if at, found := slices.BinarySearch(keys, name); found {
			indexes = append(indexes, at)
		}
	}
	slices.Sort(indexes)
	for _, at := range indexes {
		key = appendString(binary.AppendUvarint(key, uint64(at)+1), set[keys[at]])
	}
	return append(key, 0)
}

// AppendTerm appends an affinity term.
func AppendTerm(key []byte, term *fwk.AffinityTerm) []byte {
	key = appendString(key, term.TopologyKey)
	key = appendStrings(key, sets.List(term.Namespaces))
	return appendSelector(appendSelector(key, term.NamespaceSelector), term.Selector)
}

// appendSelector appends a parsed selector. The text of a selector that matches
// nothing equals that of one that matches everything; the flag distinguishes
// them.
func appendSelector(key []byte, selector labels.Selector) []byte {
	_, selects := selector.Requirements()
	return appendString(appendBool(key, selects), selector.String())
}

// appendLabelSelector appends a selector as written in the API object.
func appendLabelSelector(key []byte, selector *metav1.LabelSelector) []byte {
	if key = appendBool(key, selector != nil); selector == nil {
		return key
	}
	key = appendMap(key, selector.MatchLabels)
	key = binary.AppendUvarint(key, uint64(len(selector.MatchExpressions)))
	for i := range selector.MatchExpressions {
		r := &selector.MatchExpressions[i]
		key = appendStrings(appendString(appendString(key, r.Key), string(r.Operator)), r.Values)
	}
	return key
}

// appendNodeSelector appends a pod's nodeSelector and required node affinity.
func appendNodeSelector(key []byte, pod *v1.Pod) []byte {
	// An empty map differs from no map.
	key = appendMap(appendBool(key, pod.Spec.NodeSelector != nil), pod.Spec.NodeSelector)
	var required *v1.NodeSelector
	if affinity := pod.Spec.Affinity; affinity != nil && affinity.NodeAffinity != nil {
		required = affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	if key = appendBool(key, required != nil); required == nil {
		return key
	}
	key = binary.AppendUvarint(key, uint64(len(required.NodeSelectorTerms)))
	for i := range required.NodeSelectorTerms {
		key = appendNodeSelectorTerm(key, &required.NodeSelectorTerms[i])
	}
	return key
}

func appendNodeSelectorTerm(key []byte, term *v1.NodeSelectorTerm) []byte {
	for _, requirements := range [][]v1.NodeSelectorRequirement{term.MatchExpressions, term.MatchFields} {
		key = binary.AppendUvarint(key, uint64(len(requirements)))
		for i := range requirements {
			r := &requirements[i]
			key = appendStrings(appendString(appendString(key, r.Key), string(r.Operator)), r.Values)
		}
	}
	return key
}

func appendTolerations(key []byte, tolerations []v1.Toleration) []byte {
	key = binary.AppendUvarint(key, uint64(len(tolerations)))
	for i := range tolerations {
		t := &tolerations[i]
		// TolerationSeconds has no influence on scheduling.
		key = appendString(appendString(key, t.Key), string(t.Operator))
		key = appendString(appendString(key, t.Value), string(t.Effect))
	}
	return key
}

// PodSetKey returns a string that is equal only for sets of the same pods. Two
// sets of the same pods may have different keys.
func PodSetKey(s *counts.PodSet) string {
	key := appendBool(appendBool(nil, s.Terminating), s.Namespaces != nil)
	return string(appendSelector(appendStrings(key, sets.List(s.Namespaces)), s.Selector))
}

// ScopeKey returns a string that is equal only for scopes of the same nodes. Two
// scopes of the same nodes may have different keys.
func ScopeKey(s *counts.Scope) string {
	if s == nil {
		return ""
	}
	key := appendStrings(nil, s.RequiredLabels)
	if s.HonorAffinity {
		key = appendNodeSelector(append(key, 'a'), s.Pod)
	}
	if s.HonorTaints {
		key = appendTolerations(append(key, 't'), s.Pod.Spec.Tolerations)
	}
	return string(key)
}

// LabelKeys is a set of label keys that only grows.
type LabelKeys struct {
	sorted []string
}

// Add adds the keys of selector.
func (k *LabelKeys) Add(selector labels.Selector) {
	requirements, _ := selector.Requirements()
	for i := range requirements {
		k.Insert(requirements[i].Key())
	}
}

// Insert adds one key.
func (k *LabelKeys) Insert(key string) {
	if at, known := slices.BinarySearch(k.sorted, key); !known {
		k.sorted = slices.Insert(k.sorted, at, key)
	}
}

// List returns the sorted keys. The caller must not change the slice.
func (k *LabelKeys) List() []string { return k.sorted }
