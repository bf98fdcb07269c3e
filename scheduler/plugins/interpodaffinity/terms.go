package interpodaffinity

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// term is an affinity term of the pod to be placed whose namespaces are known.
type term struct {
	topologyKey string
	pods        *framework.PodSet
}

// resolve turns terms of the pod to be placed into sets of pods, by looking up
// which namespaces their selectors mean now. Placed pods keep their selectors:
// they are asked about one namespace at a time.
func (p *Plugin) resolveNamespaces(terms []fwk.AffinityTerm) ([]term, error) {
	resolved := make([]term, len(terms))
	for i := range terms {
		pods, err := p.podSetOf(&terms[i])
		if err != nil {
			return nil, err
		}
		resolved[i] = term{terms[i].TopologyKey, pods}
	}
	return resolved, nil
}

// podsOf are the pods that t speaks of; those that are being deleted count, as
// they still are where they are.
func (p *Plugin) podSetOf(t *fwk.AffinityTerm) (*framework.PodSet, error) {
	set := &framework.PodSet{Namespaces: t.Namespaces, Selector: t.Selector, Terminating: true}
	if t.NamespaceSelector.Empty() {
		set.Namespaces = nil
		return set, nil
	}
	if _, selects := t.NamespaceSelector.Requirements(); !selects {
		return set, nil
	}
	namespaces, err := p.namespaces.List(t.NamespaceSelector)
	if err != nil {
		return nil, err
	}
	set.Namespaces = t.Namespaces.Clone()
	for _, namespace := range namespaces {
		set.Namespaces.Insert(namespace.Name)
	}
	return set, nil
}

// labelsOf returns the labels of a namespace, none while it is not known.
func (p *Plugin) namespaceLabels(namespace string) labels.Set {
	if found, err := p.namespaces.Get(namespace); err == nil {
		return found.Labels
	}
	return nil
}

// together are the pods that match every one of terms: a single pod must
// satisfy all of a pod's required affinity. It is nil without terms.
func podsMatchingAll(terms []term) *framework.PodSet {
	if len(terms) == 0 {
		return nil
	}
	others := make([]*framework.PodSet, 0, len(terms)-1)
	for _, t := range terms[1:] {
		others = append(others, t.pods)
	}
	return terms[0].pods.Intersect(others...)
}

// keysOf returns the topology keys of terms, each once.
func topologyKeys(terms []term) []string {
	var keys []string
	seen := map[string]bool{}
	for _, t := range terms {
		if !seen[t.topologyKey] {
			seen[t.topologyKey] = true
			keys = append(keys, t.topologyKey)
		}
	}
	return keys
}

// prefers says whether the pod has preferences of its own about other pods.
func hasPreferredTerms(pod *v1.Pod) bool {
	affinity := pod.Spec.Affinity
	return affinity != nil && (affinity.PodAffinity != nil && len(affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 ||
		affinity.PodAntiAffinity != nil && len(affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0)
}
