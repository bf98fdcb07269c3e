package generate

import (
	"iter"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/support/fixture"
)

func (g *Generator) addSelector(pod *v1.Pod) {
	key := pick(g.random, []string{"disk", "arch", "gen"})
	pod.Spec.NodeSelector = map[string]string{key: pick(g.random, labels[key])}
}

func (g *Generator) addRequired(pod *v1.Pod) {
	terms := make([]v1.NodeSelectorTerm, g.between(1, 2))
	for i := range terms {
		terms[i] = g.term()
		if g.chance(15) {
			terms[i].MatchFields = g.matchFields()
		}
	}
	g.nodeAffinity(pod).RequiredDuringSchedulingIgnoredDuringExecution = &v1.NodeSelector{NodeSelectorTerms: terms}
}

func (g *Generator) addPreferred(pod *v1.Pod) {
	affinity := g.nodeAffinity(pod)
	for range g.between(1, 3) {
		affinity.PreferredDuringSchedulingIgnoredDuringExecution = append(affinity.PreferredDuringSchedulingIgnoredDuringExecution,
			v1.PreferredSchedulingTerm{Weight: int32(g.between(1, 100)), Preference: g.term()})
	}
}

// addName binds the pod to one node by its name, as a DaemonSet does.
func (g *Generator) addName(pod *v1.Pod) {
	g.nodeAffinity(pod).RequiredDuringSchedulingIgnoredDuringExecution = &v1.NodeSelector{
		NodeSelectorTerms: []v1.NodeSelectorTerm{fixture.NodeNameTerm(g.someNode())},
	}
}

func (g *Generator) nodeAffinity(pod *v1.Pod) *v1.NodeAffinity {
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &v1.Affinity{}
	}
	if pod.Spec.Affinity.NodeAffinity == nil {
		pod.Spec.Affinity.NodeAffinity = &v1.NodeAffinity{}
	}
	return pod.Spec.Affinity.NodeAffinity
}

// term has one or two requirements on labels; rarely none, which no node matches.
func (g *Generator) term() v1.NodeSelectorTerm {
	var term v1.NodeSelectorTerm
	if g.chance(3) {
		return term
	}
	for range g.between(1, 2) {
		term.MatchExpressions = append(term.MatchExpressions, g.requirement())
	}
	return term
}

func (g *Generator) requirement() v1.NodeSelectorRequirement {
	key := pick(g.random, labelKeys)
	values := labels[key]
	switch key {
	case v1.LabelTopologyZone:
		values = zones
	case v1.LabelHostname:
		values = append([]string{"nowhere"}, g.nodeNames...)
	}
	operator := pick(g.random, []v1.NodeSelectorOperator{
		v1.NodeSelectorOpIn, v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn, v1.NodeSelectorOpExists, v1.NodeSelectorOpDoesNotExist,
	})
	if key == "gen" && g.chance(60) {
		operator = pick(g.random, []v1.NodeSelectorOperator{v1.NodeSelectorOpGt, v1.NodeSelectorOpLt})
	}
	r := v1.NodeSelectorRequirement{Key: key, Operator: operator}
	switch operator {
	case v1.NodeSelectorOpGt, v1.NodeSelectorOpLt:
		r.Values = []string{pick(g.random, []string{"1", "2", "4", "0"})}
	case v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn:
		if r.Values = some(g.random, values, 2); len(r.Values) == 0 {
			r.Values = values[:1]
		}
	}
	return r
}

// matchFields includes or excludes nodes by name.
func (g *Generator) matchFields() []v1.NodeSelectorRequirement {
	r := v1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{g.someNode()}}
	if g.chance(30) {
		r.Operator = v1.NodeSelectorOpNotIn
	}
	if g.chance(15) {
		return []v1.NodeSelectorRequirement{r, {Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{g.someNode()}}}
	}
	return []v1.NodeSelectorRequirement{r}
}

// sorted iterates over m by its keys, so that a seed draws the same values each time.
func sorted[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !yield(key, m[key]) {
				return
			}
		}
	}
}
