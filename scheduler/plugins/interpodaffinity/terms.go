package interpodaffinity

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework/counts"
)

// term is an affinity term of the incoming pod with its namespaces resolved.
type term struct {
	topologyKey string
	pods        *counts.PodSet
}

// resolveNamespaces looks up the namespaces that the terms of the incoming pod select
// now. The terms of placed pods keep their selectors, since they are matched against
// one namespace at a time.
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

// podSetOf returns the pods that t selects, terminating pods included: these are still
// on their nodes.
func (p *Plugin) podSetOf(t *fwk.AffinityTerm) (*counts.PodSet, error) {
	set := &counts.PodSet{Namespaces: t.Namespaces, Selector: t.Selector, Terminating: true}
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

// namespaceLabels returns the labels of a namespace; nil if it is not in the informer.
func (p *Plugin) namespaceLabels(namespace string) labels.Set {
	if found, err := p.namespaces.Get(namespace); err == nil {
		return found.Labels
	}
	return nil
}

// podsMatchingAll returns the pods that match all terms: a single pod must satisfy all
// terms of a required affinity. It is nil without terms.
func podsMatchingAll(terms []term) *counts.PodSet {
	if len(terms) == 0 {
		return nil
	}
	others := make([]*counts.PodSet, 0, len(terms)-1)
	for _, t := range terms[1:] {
		others = append(others, t.pods)
	}
	return terms[0].pods.Intersect(others...)
}

// topologyKeys returns the topology keys of terms without duplicates.
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

// hasPreferredTerms reports whether the pod has preferred affinity or anti-affinity
// terms.
func hasPreferredTerms(pod *v1.Pod) bool {
	affinity := pod.Spec.Affinity
	return affinity != nil && (affinity.PodAffinity != nil && len(affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 ||
		affinity.PodAntiAffinity != nil && len(affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0)
}
