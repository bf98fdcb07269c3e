package hostile

import (
	"math"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// keys are the keys of labels and topologies. Nodes and pods have the first ones.
var keys = []string{v1.LabelHostname, v1.LabelTopologyZone, "app", "tier", "gen", "", "no label", "a/b/c"}

// values are the values of labels.
var values = []string{"web", "db", "a", "b", "1", "5", "-3", "", "no value!", "9223372036854775808"}

// number returns a number as users write it in int32 fields.
func (b *Bytes) number() int32 {
	return Pick(b, int32(1), 2, 5, 100, 0, -1, 101, math.MaxInt32, math.MinInt32, math.MaxInt32-1)
}

// Labels returns up to most labels; nil for none.
func (b *Bytes) Labels(most int) map[string]string {
	var labels map[string]string
	for range b.Below(most + 1) {
		if labels == nil {
			labels = map[string]string{}
		}
		labels[Pick(b, keys...)] = Pick(b, values...)
	}
	return labels
}

// LabelSelector returns a selector; nil in some cases.
func (b *Bytes) LabelSelector() *metav1.LabelSelector {
	switch b.Below(6) {
	case 1:
		return nil
	case 2:
		return &metav1.LabelSelector{}
	case 3:
		return &metav1.LabelSelector{MatchLabels: b.Labels(2), MatchExpressions: List(b, 2, b.labelRequirement)}
	case 4:
		return &metav1.LabelSelector{MatchExpressions: List(b, 2, b.labelRequirement)}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": Pick(b, values...)}}
}

func (b *Bytes) labelRequirement() metav1.LabelSelectorRequirement {
	operators := []metav1.LabelSelectorOperator{metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist, "Gt", "Resembles", ""}
	return metav1.LabelSelectorRequirement{
		Key: Pick(b, keys...), Operator: Pick(b, operators...), Values: List(b, 3, func() string { return Pick(b, values...) }),
	}
}

func (b *Bytes) nodeSelectorRequirement() v1.NodeSelectorRequirement {
	operators := []v1.NodeSelectorOperator{
		v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn, v1.NodeSelectorOpExists, v1.NodeSelectorOpDoesNotExist, v1.NodeSelectorOpGt, v1.NodeSelectorOpLt, "Resembles", "",
	}
	return v1.NodeSelectorRequirement{
		Key: Pick(b, keys...), Operator: Pick(b, operators...), Values: List(b, 3, func() string { return Pick(b, values...) }),
	}
}

// nodeFieldRequirement is about the name of a node, or about another field.
func (b *Bytes) nodeFieldRequirement() v1.NodeSelectorRequirement {
	r := b.nodeSelectorRequirement()
	r.Key = Pick(b, metav1.ObjectNameField, metav1.ObjectNameField, "metadata.namespace", "spec.colour")
	r.Values = List(b, 2, func() string { return Pick(b, "n0", "n1", "n2", "n3", "nowhere", "") })
	return r
}

func (b *Bytes) nodeSelectorTerm() v1.NodeSelectorTerm {
	term := v1.NodeSelectorTerm{MatchExpressions: List(b, 2, b.nodeSelectorRequirement)}
	if b.One(4) {
		term.MatchFields = List(b, 2, b.nodeFieldRequirement)
	}
	return term
}

func (b *Bytes) nodeAffinity() *v1.NodeAffinity {
	affinity := &v1.NodeAffinity{}
	if b.One(2) {
		affinity.RequiredDuringSchedulingIgnoredDuringExecution = &v1.NodeSelector{NodeSelectorTerms: List(b, 3, b.nodeSelectorTerm)}
	}
	affinity.PreferredDuringSchedulingIgnoredDuringExecution = List(b, 2, func() v1.PreferredSchedulingTerm {
		return v1.PreferredSchedulingTerm{Weight: b.number(), Preference: b.nodeSelectorTerm()}
	})
	return affinity
}

func (b *Bytes) podAffinityTerm() v1.PodAffinityTerm {
	term := v1.PodAffinityTerm{LabelSelector: b.LabelSelector(), TopologyKey: Pick(b, keys...)}
	if b.One(5) {
		term.NamespaceSelector = b.LabelSelector()
	}
	if b.One(6) {
		term.Namespaces = List(b, 2, func() string { return Pick(b, "default", "shop", "", "no namespace!") })
	}
	if b.One(6) {
		term.MatchLabelKeys = List(b, 2, func() string { return Pick(b, keys...) })
		term.MismatchLabelKeys = List(b, 2, func() string { return Pick(b, keys...) })
	}
	return term
}

func (b *Bytes) weightedPodAffinityTerm() v1.WeightedPodAffinityTerm {
	return v1.WeightedPodAffinityTerm{Weight: b.number(), PodAffinityTerm: b.podAffinityTerm()}
}

// affinity returns an affinity; nil in most cases.
func (b *Bytes) affinity() *v1.Affinity {
	if !b.One(2) {
		return nil
	}
	affinity := &v1.Affinity{}
	if b.One(2) {
		affinity.NodeAffinity = b.nodeAffinity()
	}
	if b.One(3) {
		affinity.PodAffinity = &v1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution:  List(b, 2, b.podAffinityTerm),
			PreferredDuringSchedulingIgnoredDuringExecution: List(b, 2, b.weightedPodAffinityTerm),
		}
	}
	if b.One(3) {
		affinity.PodAntiAffinity = &v1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution:  List(b, 2, b.podAffinityTerm),
			PreferredDuringSchedulingIgnoredDuringExecution: List(b, 2, b.weightedPodAffinityTerm),
		}
	}
	return affinity
}

func (b *Bytes) spreadConstraint() v1.TopologySpreadConstraint {
	constraint := v1.TopologySpreadConstraint{
		MaxSkew: b.number(), TopologyKey: Pick(b, keys...), LabelSelector: b.LabelSelector(),
		WhenUnsatisfiable: Pick(b, v1.DoNotSchedule, v1.ScheduleAnyway, "Maybe", ""),
	}
	if b.One(4) {
		constraint.MinDomains = new(b.number())
	}
	if b.One(4) {
		constraint.NodeAffinityPolicy = new(Pick(b, v1.NodeInclusionPolicyHonor, v1.NodeInclusionPolicyIgnore, "Maybe"))
		constraint.NodeTaintsPolicy = new(Pick(b, v1.NodeInclusionPolicyHonor, v1.NodeInclusionPolicyIgnore, "Maybe"))
	}
	if b.One(6) {
		constraint.MatchLabelKeys = List(b, 2, func() string { return Pick(b, keys...) })
	}
	return constraint
}

// taintKeys are the keys of taints and tolerations.
var taintKeys = []string{"dedicated", v1.TaintNodeUnschedulable, v1.TaintNodeNotReady, "gen", "", "no key!"}

func (b *Bytes) effect() v1.TaintEffect {
	return Pick(b, v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute, "", "Sometimes")
}

func (b *Bytes) taint() v1.Taint {
	return v1.Taint{Key: Pick(b, taintKeys...), Value: Pick(b, values...), Effect: b.effect()}
}

func (b *Bytes) toleration() v1.Toleration {
	toleration := v1.Toleration{
		Key: Pick(b, taintKeys...), Value: Pick(b, values...), Effect: b.effect(),
		Operator: Pick(b, v1.TolerationOpEqual, v1.TolerationOpExists, v1.TolerationOpGt, v1.TolerationOpLt, "", "Resembles"),
	}
	if b.One(4) {
		toleration.TolerationSeconds = new(int64(b.number()))
	}
	return toleration
}
