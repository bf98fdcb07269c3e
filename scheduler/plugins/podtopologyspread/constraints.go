package podtopologyspread

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berthdev/berth/scheduler/framework/counts"
)

// constraint is a spread constraint of one pod with its selector parsed.
type constraint struct {
	topologyKey string
	maxSkew     int32
	minDomains  int32
	// selector selects the pods that are spread.
	selector labels.Selector
	// honorAffinity and honorTaints do not count nodes that the pod's node affinity or
	// tolerations exclude.
	honorAffinity, honorTaints bool
}

// constraintsOf returns the pod's constraints with this action, or, if the pod has no
// constraints at all, the default constraints that apply to it. It returns an error
// when a selector does not parse.
func (p *Plugin) constraintsOf(pod *v1.Pod, action v1.UnsatisfiableConstraintAction) ([]constraint, error) {
	if own := pod.Spec.TopologySpreadConstraints; len(own) > 0 {
		constraints, err := parseConstraints(own, pod.Labels, action)
		if err != nil {
			return nil, fmt.Errorf("obtaining the pod's topology spread constraints: %w", err)
		}
		return constraints, nil
	}
	constraints, err := parseConstraints(p.defaults, nil, action)
	if err != nil || len(constraints) == 0 {
		return nil, err
	}
	selector := p.owners.defaultSelector(pod)
	if selector.Empty() {
		// No service and no controller selects the pod.
		return nil, nil
	}
	for i := range constraints {
		constraints[i].selector = selector
	}
	return constraints, nil
}

func parseConstraints(list []v1.TopologySpreadConstraint, pod labels.Set, action v1.UnsatisfiableConstraintAction) ([]constraint, error) {
	var constraints []constraint
	for i := range list {
		c := &list[i]
		if c.WhenUnsatisfiable != action {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
		if err != nil {
			return nil, err
		}
		parsed := constraint{
			topologyKey: c.TopologyKey, maxSkew: c.MaxSkew, minDomains: 1,
			selector:      mergeMatchLabelKeys(selector, pod, c.MatchLabelKeys),
			honorAffinity: c.NodeAffinityPolicy == nil || *c.NodeAffinityPolicy == v1.NodeInclusionPolicyHonor,
			honorTaints:   c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == v1.NodeInclusionPolicyHonor,
		}
		if c.MinDomains != nil {
			parsed.minDomains = *c.MinDomains
		}
		constraints = append(constraints, parsed)
	}
	return constraints, nil
}

// mergeMatchLabelKeys restricts selector to pods that have the same values as the pod
// for those of keys that the pod has. A selector that matches nothing is returned
// unchanged.
func mergeMatchLabelKeys(selector labels.Selector, pod labels.Set, keys []string) labels.Selector {
	same := labels.Set{}
	for _, key := range keys {
		if value, ok := pod[key]; ok {
			same[key] = value
		}
	}
	requirements, selects := selector.Requirements()
	if len(same) == 0 || !selects {
		return selector
	}
	return labels.SelectorFromSet(same).Add(requirements...)
}

// podSet returns the pods that the constraint counts for pod. An empty selector counts
// none, although it matches the pod itself; upstream does the same.
func (c *constraint) podSet(pod *v1.Pod) *counts.PodSet {
	set := &counts.PodSet{Namespaces: sets.New(pod.Namespace), Selector: c.selector}
	if c.selector.Empty() {
		set.Selector = labels.Nothing()
	}
	return set
}

// scopesOf returns the scope of each constraint: which nodes count. These must have all
// the labels in keys. Constraints with the same inclusion policies share a scope.
func scopesOf(pod *v1.Pod, constraints []constraint, keys []string) []*counts.Scope {
	type policies struct{ affinity, taints bool }
	known := map[policies]*counts.Scope{}
	list := make([]*counts.Scope, len(constraints))
	for i, c := range constraints {
		at := policies{c.honorAffinity, c.honorTaints}
		if known[at] == nil {
			known[at] = counts.NewScope(pod, keys, c.honorAffinity, c.honorTaints)
		}
		list[i] = known[at]
	}
	return list
}

func topologyKeys(constraints []constraint) []string {
	keys := make([]string, len(constraints))
	for i, c := range constraints {
		keys[i] = c.topologyKey
	}
	return keys
}

// hasAllLabels reports whether node has labels with all of keys.
func hasAllLabels(node *v1.Node, keys []string) bool {
	for _, key := range keys {
		if _, ok := node.Labels[key]; !ok {
			return false
		}
	}
	return true
}
