package generate

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/support/fixture"
)

// Rack is a topology key that no cloud provider sets.
const Rack = "example.com/rack"

// topologies are the topology keys of constraints and terms; the last is on some nodes only.
var topologies = []string{v1.LabelTopologyZone, v1.LabelTopologyZone, v1.LabelHostname, v1.LabelTopologyRegion, Rack, "disk"}

func (g *Generator) podLabels() map[string]string {
	set := map[string]string{"app": pick(g.random, apps)}
	if g.chance(50) {
		set["tier"] = pick(g.random, tiers)
	}
	return set
}

// addSpread adds one or two constraints that differ in key or action, as the API server
// demands.
func (g *Generator) addSpread(pod *v1.Pod) {
	taken := map[string]bool{}
	for range g.between(1, 2) {
		c := g.constraint()
		if g.chance(90) {
			c.LabelSelector = g.selector()
		}
		if g.chance(15) {
			c.MatchLabelKeys = []string{pick(g.random, []string{"app", "tier", "absent"})}
			if c.LabelSelector == nil {
				c.LabelSelector = &metav1.LabelSelector{}
			}
		}
		if id := c.TopologyKey + string(c.WhenUnsatisfiable); !taken[id] {
			taken[id] = true
			pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, c)
		}
	}
}

// constraint returns one without a selector.
func (g *Generator) constraint() v1.TopologySpreadConstraint {
	c := v1.TopologySpreadConstraint{
		MaxSkew: int32(g.between(1, 3)), TopologyKey: pick(g.random, topologies),
		WhenUnsatisfiable: pick(g.random, []v1.UnsatisfiableConstraintAction{v1.DoNotSchedule, v1.ScheduleAnyway}),
	}
	if c.WhenUnsatisfiable == v1.DoNotSchedule && g.chance(20) {
		domains := int32(g.between(1, 4))
		c.MinDomains = &domains
	}
	policies := []v1.NodeInclusionPolicy{v1.NodeInclusionPolicyHonor, v1.NodeInclusionPolicyIgnore}
	if g.chance(30) {
		policy := pick(g.random, policies)
		c.NodeAffinityPolicy = &policy
	}
	if g.chance(30) {
		policy := pick(g.random, policies)
		c.NodeTaintsPolicy = &policy
	}
	return c
}

// selector selects pods by their labels: most of the time some, sometimes all or none.
func (g *Generator) selector() *metav1.LabelSelector {
	switch s := (&metav1.LabelSelector{}); g.IntN(8) {
	case 0:
		return s
	case 1:
		s.MatchExpressions = []metav1.LabelSelectorRequirement{{
			Key: "app", Operator: pick(g.random, []metav1.LabelSelectorOperator{metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn}),
			Values: []string{pick(g.random, apps), pick(g.random, apps)},
		}}
		return s
	case 2:
		s.MatchExpressions = []metav1.LabelSelectorRequirement{{
			Key: "tier", Operator: pick(g.random, []metav1.LabelSelectorOperator{metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist}),
		}}
		return s
	default:
		s.MatchLabels = map[string]string{"app": pick(g.random, apps)}
		if g.chance(20) {
			s.MatchLabels["tier"] = pick(g.random, tiers)
		}
		return s
	}
}

// addPodAffinity adds pod affinity or anti-affinity, with this percentage of required terms;
// the others are preferred.
func (g *Generator) addPodAffinity(pod *v1.Pod, required int) {
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &v1.Affinity{}
	}
	if g.chance(55) {
		affinity := &v1.PodAffinity{}
		affinity.RequiredDuringSchedulingIgnoredDuringExecution, affinity.PreferredDuringSchedulingIgnoredDuringExecution = g.terms(pod, required)
		pod.Spec.Affinity.PodAffinity = affinity
	}
	if g.chance(55) {
		antiAffinity := &v1.PodAntiAffinity{}
		antiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, antiAffinity.PreferredDuringSchedulingIgnoredDuringExecution = g.terms(pod, required)
		pod.Spec.Affinity.PodAntiAffinity = antiAffinity
	}
}

// terms returns one or two terms, with this percentage of required ones.
func (g *Generator) terms(pod *v1.Pod, percent int) (required []v1.PodAffinityTerm, preferred []v1.WeightedPodAffinityTerm) {
	for range g.between(1, 2) {
		if g.chance(percent) {
			required = append(required, g.podTerm(pod))
		} else {
			preferred = append(preferred, v1.WeightedPodAffinityTerm{Weight: int32(g.between(1, 100)), PodAffinityTerm: g.podTerm(pod)})
		}
	}
	return required, preferred
}

// podTerm selects some pods, often those that are similar to the pod.
func (g *Generator) podTerm(pod *v1.Pod) v1.PodAffinityTerm {
	term := v1.PodAffinityTerm{TopologyKey: pick(g.random, topologies)}
	if g.chance(95) {
		term.LabelSelector = g.selector()
	}
	if len(pod.Labels) > 0 && g.chance(20) {
		term.LabelSelector = &metav1.LabelSelector{MatchLabels: maps.Clone(pod.Labels)}
	}
	if term.LabelSelector != nil && g.chance(20) {
		g.addLabelKeys(&term, pod)
	}
	if g.chance(25) {
		term.Namespaces = some(g.random, namespaces, 2)
	}
	switch g.IntN(8) {
	case 0:
		term.NamespaceSelector = &metav1.LabelSelector{}
	case 1:
		term.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": pick(g.random, teams)}}
	}
	return term
}

// addLabelKeys gives a term matchLabelKeys or mismatchLabelKeys. The API server adds them to
// the selector, which is what schedulers read; old versions did not.
func (g *Generator) addLabelKeys(term *v1.PodAffinityTerm, pod *v1.Pod) {
	key, operator := pick(g.random, []string{"app", "tier", "absent"}), metav1.LabelSelectorOpIn
	if g.chance(50) {
		term.MatchLabelKeys = []string{key}
	} else {
		term.MismatchLabelKeys, operator = []string{key}, metav1.LabelSelectorOpNotIn
	}
	if value, ok := pod.Labels[key]; ok && g.chance(90) {
		term.LabelSelector.MatchExpressions = append(term.LabelSelector.MatchExpressions,
			metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: []string{value}})
	}
}

// addOwner gives the pod an owner, whose selector applies where the pod has no constraints of
// its own.
func (g *Generator) addOwner(pod *v1.Pod) {
	kind := pick(g.random, []string{"ReplicaSet", "StatefulSet", "ReplicationController"})
	pod.OwnerReferences = fixture.Pod("x").Owner(kind, pod.Labels["app"]).Obj().OwnerReferences
	if kind == "ReplicationController" {
		pod.OwnerReferences[0].APIVersion = "v1"
	}
}
