package preemption

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// budgets are the PodDisruptionBudgets of a cluster, by namespace. Selectors are
// parsed only for namespaces with victims.
type budgets struct {
	all    map[string][]*policyv1.PodDisruptionBudget
	parsed map[string][]*budget
}

// budget is one PodDisruptionBudget whose selector is not empty.
type budget struct {
	*policyv1.PodDisruptionBudget
	selector labels.Selector
}

func newBudgets(all []*policyv1.PodDisruptionBudget) *budgets {
	b := &budgets{all: map[string][]*policyv1.PodDisruptionBudget{}, parsed: map[string][]*budget{}}
	for _, pdb := range all {
		b.all[pdb.Namespace] = append(b.all[pdb.Namespace], pdb)
	}
	return b
}

// forNamespace returns the budgets of a namespace, by name. A malformed or empty
// selector counts as selecting no pod. The order matters where a pod has several
// budgets; kube-scheduler takes it from a map.
func (b *budgets) forNamespace(namespace string) []*budget {
	if parsed, ok := b.parsed[namespace]; ok {
		return parsed
	}
	var parsed []*budget
	for _, pdb := range b.all[namespace] {
		selector, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
		if err == nil && !selector.Empty() {
			parsed = append(parsed, &budget{pdb, selector})
		}
	}
	slices.SortFunc(parsed, func(a, b *budget) int { return cmp.Compare(a.Name, b.Name) })
	b.parsed[namespace] = parsed
	return parsed
}

// split splits victims, in their order, into those whose eviction would violate a
// budget and the others, and counts the violations. Each of the others uses up one disruption
// of every budget that selects it. A group is protected if one of its pods is.
func (b *budgets) split(victims []*victim) (protected, free []*victim) {
	used := map[*budget]int32{}
	for _, v := range victims {
		v.violations = 0
		for info := range v.pods() {
			if b.wouldViolate(info.GetPod(), used) {
				v.violations++
			}
		}
		if v.violations > 0 {
			protected = append(protected, v)
		} else {
			free = append(free, v)
		}
	}
	return protected, free
}

// wouldViolate reports whether evicting pod violates a budget, and counts the
// disruption in used. A disruption that the API server has counted already is not
// counted again.
func (b *budgets) wouldViolate(pod *v1.Pod, used map[*budget]int32) bool {
	if len(pod.Labels) == 0 {
		return false
	}
	for _, pdb := range b.forNamespace(pod.Namespace) {
		if !pdb.selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		if _, counted := pdb.Status.DisruptedPods[pod.Name]; counted {
			continue
		}
		used[pdb]++
		if used[pdb] > pdb.Status.DisruptionsAllowed {
			return true
		}
	}
	return false
}
