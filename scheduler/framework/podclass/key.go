package podclass

import (
	"encoding/binary"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/scheduler/framework"
)

// KeyBuilder builds the key of a pod class. Pods with equal keys are equal
// for every plugin that reads no more of a pod than it declared.
type KeyBuilder struct {
	// Facets are all pod facets that plugins read.
	Facets framework.PodFacets
	// Keyers append what no facet covers.
	Keyers []PodKeyer
	// Labels are the label keys that selectors of other objects name.
	Labels *LabelKeys
}

// LabelSelecting is a ReadsDeclarer that matches pods' labels with selectors
// which are neither in the pod nor in terms of other pods.
type LabelSelecting interface {
	// SelectedLabels adds the label keys that these selectors name now.
	SelectedLabels(keys *LabelKeys)
}

// PodKeyer is a ReadsDeclarer that derives something from a pod which no
// PodFacets cover, and appends it to the key of the pod class.
type PodKeyer interface {
	AppendPodKey(key []byte, pod *v1.Pod) []byte
}

// Uncacheable reports whether a pod belongs to no class, because its status
// affects its requests, or because it selects nodes by name, like the pods of a
// DaemonSet.
func Uncacheable(pod *v1.Pod) bool {
	return framework.StatusAffectsRequests(pod) || pod.Spec.NodeName != "" || requiresNodesByName(pod)
}

// Append appends the key of a pod that is not Uncacheable.
func (c *KeyBuilder) Append(key []byte, pod *v1.Pod) []byte {
	has := func(facet framework.PodFacets) bool { return c.Facets&facet != 0 }
	if has(framework.PodNamespace) {
		key = appendString(key, pod.Namespace)
	}
	if has(framework.PodLabels) {
		// Label keys are only ever added, so their number identifies the set.
		key = binary.AppendUvarint(key, uint64(len(c.Labels.List())))
		key = AppendLabels(key, pod.Labels, c.Labels.List())
	}
	if has(framework.PodOwner) {
		key = appendOwner(key, pod)
	}
	if has(framework.PodTolerations) {
		key = appendTolerations(key, pod.Spec.Tolerations)
	}
	if has(framework.PodNodeAffinity) {
		key = appendPreferredNodeAffinity(appendNodeSelector(key, pod), pod)
	}
	if has(framework.PodAffinity) {
		key = appendPodAffinity(key, pod)
	}
	if has(framework.PodSpread) {
		key = appendSpreadConstraints(key, pod)
	}
	if has(framework.PodRequests) {
		key = appendRequests(key, pod)
	}
	if has(framework.PodPorts) {
		key = appendPorts(key, pod)
	}
	if has(framework.PodImages) {
		key = appendImages(key, pod)
	}
	if has(framework.PodVolumes) {
		// Plugins read the volumes in every attempt; the key holds only whether
		// there are any.
		key = appendBool(key, framework.HasVolumes(pod))
	}
	if has(framework.PodDevices) {
		key = appendBool(key, framework.PerAttemptFacets(pod)&framework.PodDevices != 0)
	}
	for _, keyer := range c.Keyers {
		key = keyer.AppendPodKey(key, pod)
	}
	return key
}

// requiresNodesByName reports whether the pod's required node affinity names
// nodes.
func requiresNodesByName(pod *v1.Pod) bool {
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	terms := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	return slices.ContainsFunc(terms, func(t v1.NodeSelectorTerm) bool { return len(t.MatchFields) > 0 })
}

func appendOwner(key []byte, pod *v1.Pod) []byte {
	if len(pod.OwnerReferences) == 0 {
		return append(key, 0)
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return append(key, 0)
	}
	switch owner.Kind {
	case "ReplicationController", "ReplicaSet", "StatefulSet":
		return appendString(appendString(appendString(append(key, 1), owner.APIVersion), owner.Kind), owner.Name)
	}
	return append(key, 0)
}

func appendRequests(key []byte, pod *v1.Pod) []byte {
	key = binary.AppendUvarint(key, uint64(len(pod.Spec.Containers)))
	for i := range pod.Spec.Containers {
		key = appendResources(key, pod.Spec.Containers[i].Resources.Requests)
	}
	key = binary.AppendUvarint(key, uint64(len(pod.Spec.InitContainers)))
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		key = appendResources(appendBool(key, framework.IsRestartableInitContainer(c)), c.Resources.Requests)
	}
	if key = appendBool(key, pod.Spec.Resources != nil); pod.Spec.Resources != nil {
		key = appendResources(key, pod.Spec.Resources.Requests)
	}
	// An empty list differs from no list.
	return appendResources(appendBool(key, pod.Spec.Overhead != nil), pod.Spec.Overhead)
}

func appendResources(key []byte, list v1.ResourceList) []byte {
	key = binary.AppendUvarint(key, uint64(len(list)))
	rest := len(list)
	if cpu, ok := list[v1.ResourceCPU]; ok {
		key = appendQuantity(append(key, 'c'), &cpu, resource.Milli)
		rest--
	}
	if memory, ok := list[v1.ResourceMemory]; ok {
		key = appendQuantity(append(key, 'm'), &memory, 0)
		rest--
	}
	if rest == 0 {
		return key
	}
	names := make([]string, 0, 8)
	for name := range list {
		if name != v1.ResourceCPU && name != v1.ResourceMemory {
			names = append(names, string(name))
		}
	}
	slices.Sort(names)
	for _, name := range names {
		quantity := list[v1.ResourceName(name)]
		key = appendQuantity(appendString(append(key, 'n'), name), &quantity, 0)
	}
	return key
}

// appendQuantity appends an integer in units of scale, or the exact decimal if
// the quantity is not a multiple of the unit.
func appendQuantity(key []byte, quantity *resource.Quantity, scale resource.Scale) []byte {
	value := quantity.ScaledValue(scale)
	if quantity.Cmp(*resource.NewScaledQuantity(value, scale)) == 0 {
		return binary.AppendVarint(append(key, 0), value)
	}
	return appendString(append(key, 1), quantity.AsDec().String())
}

func appendPorts(key []byte, pod *v1.Pod) []byte {
	for _, containers := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			if len(containers[i].Ports) > 0 {
				return appendHostPorts(append(key, 1), pod)
			}
		}
	}
	return append(key, 0)
}

func appendHostPorts(key []byte, pod *v1.Pod) []byte {
	for port := range framework.HostPorts(pod) {
		key = appendString(appendString(append(key, 1), port.HostIP), string(port.Protocol))
		key = binary.AppendVarint(key, int64(port.HostPort))
	}
	return append(key, 0)
}

func appendImages(key []byte, pod *v1.Pod) []byte {
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		key = binary.AppendUvarint(key, uint64(len(containers)))
		for i := range containers {
			key = appendString(key, containers[i].Image)
		}
	}
	for i := range pod.Spec.Volumes {
		if image := pod.Spec.Volumes[i].Image; image != nil {
			key = appendString(append(key, 1), image.Reference)
		}
	}
	return append(key, 0)
}

func appendPreferredNodeAffinity(key []byte, pod *v1.Pod) []byte {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return append(key, 0)
	}
	terms := pod.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	// An empty list differs from no list.
	key = binary.AppendUvarint(appendBool(append(key, 1), terms != nil), uint64(len(terms)))
	for i := range terms {
		key = appendNodeSelectorTerm(binary.AppendVarint(key, int64(terms[i].Weight)), &terms[i].Preference)
	}
	return key
}

// appendPodAffinity appends the pod's terms, and its own labels for the keys
// that the terms name.
func appendPodAffinity(key []byte, pod *v1.Pod) []byte {
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.PodAffinity == nil && affinity.PodAntiAffinity == nil {
		return append(key, 0)
	}
	key = append(key, 1)
	if podAffinity := affinity.PodAffinity; podAffinity != nil {
		key = appendPodAffinityTerms(key, pod, podAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		key = appendWeightedPodAffinityTerms(key, pod, podAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	} else {
		key = append(key, 0, 0)
	}
	if podAntiAffinity := affinity.PodAntiAffinity; podAntiAffinity != nil {
		key = appendPodAffinityTerms(key, pod, podAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		key = appendWeightedPodAffinityTerms(key, pod, podAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
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

// appendSelectedLabels appends the pod's labels for the keys that selector
// names.
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
