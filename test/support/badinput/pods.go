package badinput

import (
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/support/fixture"
)

// Pod is a pod that the API server would reject. It may be stored all the same, by another
// version or by a write to etcd.
type Pod struct {
	// Description says what is wrong with it.
	Description string
	// Message is a part of the scheduling error on nodes with enough resources; empty for
	// a pod that is bound, because nothing depends on the invalid field.
	Message string
	// Bad makes a pod invalid.
	Bad func(*v1.Pod)
}

// Pods returns the invalid pods, in a fixed order. None of them may stop the scheduler: each is
// bound or gets a reason why it is not, and other pods are scheduled.
func Pods() []Pod {
	var all []Pod
	for _, group := range [][]Pod{withoutSelectors, malformedSelectors, malformedNodeSelectors, unboundedTerms, badQuantities, badNumbers, otherBadPods} {
		all = append(all, group...)
	}
	return all
}

var withoutSelectors = []Pod{
	{"affinity without anything", "", func(p *v1.Pod) { p.Spec.Affinity = &v1.Affinity{} }},
	{"affinity of every kind without anything", "", func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{}, PodAffinity: &v1.PodAffinity{}, PodAntiAffinity: &v1.PodAntiAffinity{}}
	}},
	{"a node selector without terms", "didn't match Pod's node affinity", requiresNode()},
	{"a node selector with an empty term", "didn't match Pod's node affinity", requiresNode(v1.NodeSelectorTerm{})},
	{"required affinity without a selector", "didn't match pod affinity rules", requiresPodAffinity(v1.PodAffinityTerm{TopologyKey: v1.LabelHostname})},
	{"required anti-affinity without a selector", "", requiresPodAntiAffinity(v1.PodAffinityTerm{TopologyKey: v1.LabelHostname})},
	{"preferred affinity without a selector", "", prefersPodAffinity(v1.PodAffinityTerm{TopologyKey: v1.LabelHostname})},
	{"required affinity without a topology key", "didn't match pod affinity rules", requiresPodAffinity(v1.PodAffinityTerm{LabelSelector: fixture.LabelSelector()})},
	{"a preferred node term without anything", "", func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{{Weight: 1}},
		}}
	}},
	{"a hard constraint without a selector", "", hasSpreadConstraints(v1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: v1.LabelHostname, WhenUnsatisfiable: v1.DoNotSchedule})},
	{"a constraint without anything", "", hasSpreadConstraints(v1.TopologySpreadConstraint{})},
}

// unknownOperator has an operator that does not exist, noValues lacks the values that its
// operator needs, and invalidKey has a key that is no label key.
var (
	unknownOperator = selector("app", "Resembles", "web")
	noValues        = selector("app", metav1.LabelSelectorOpIn)
	invalidKey      = selector("no label", metav1.LabelSelectorOpExists)
)

var malformedSelectors = []Pod{
	{"required affinity by an unknown operator", "parsing pod: requiredAffinityTerms", requiresPodAffinity(v1.PodAffinityTerm{TopologyKey: v1.LabelHostname, LabelSelector: unknownOperator})},
	{"required affinity by an operator without values", "parsing pod: requiredAffinityTerms", requiresPodAffinity(v1.PodAffinityTerm{TopologyKey: v1.LabelHostname, LabelSelector: noValues})},
	{"required anti-affinity by an unknown operator", "parsing pod: requiredAntiAffinityTerms", requiresPodAntiAffinity(v1.PodAffinityTerm{TopologyKey: v1.LabelHostname, LabelSelector: unknownOperator})},
	{"required anti-affinity by an invalid key", "parsing pod: requiredAntiAffinityTerms", requiresPodAntiAffinity(v1.PodAffinityTerm{TopologyKey: v1.LabelHostname, LabelSelector: invalidKey})},
	{"preferred affinity by an unknown operator", "parsing pod: preferredAffinityTerms", prefersPodAffinity(v1.PodAffinityTerm{TopologyKey: v1.LabelHostname, LabelSelector: unknownOperator})},
	{"namespaces by an unknown operator", "parsing pod: requiredAffinityTerms", requiresPodAffinity(v1.PodAffinityTerm{TopologyKey: v1.LabelHostname, LabelSelector: fixture.LabelSelector(), NamespaceSelector: unknownOperator})},
	{"matchLabelKeys that are invalid", "", requiresPodAffinity(v1.PodAffinityTerm{
		TopologyKey: v1.LabelHostname, LabelSelector: fixture.LabelSelector("app", "web"), MatchLabelKeys: []string{"no label"}, MismatchLabelKeys: []string{"no label"},
	})},
	{"a hard constraint by an unknown operator", "obtaining the pod's topology spread constraints", hasSpreadConstraints(v1.TopologySpreadConstraint{
		MaxSkew: 1, TopologyKey: v1.LabelHostname, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: unknownOperator,
	})},
	{"a soft constraint by an unknown operator", "obtaining the pod's topology spread constraints", hasSpreadConstraints(v1.TopologySpreadConstraint{
		MaxSkew: 1, TopologyKey: v1.LabelHostname, WhenUnsatisfiable: v1.ScheduleAnyway, LabelSelector: unknownOperator,
	})},
}

var malformedNodeSelectors = []Pod{
	{"a node by an unknown operator", "didn't match Pod's node affinity", requiresNode(fixture.NodeSelectorTerm(v1.NodeSelectorRequirement{Key: "a", Operator: "Resembles", Values: []string{"b"}}))},
	{"a node by Gt with a string", "didn't match Pod's node affinity", requiresNode(fixture.NodeSelectorTerm(v1.NodeSelectorRequirement{Key: "a", Operator: v1.NodeSelectorOpGt, Values: []string{"b"}}))},
	{"a node by In without values", "didn't match Pod's node affinity", requiresNode(fixture.NodeSelectorTerm(fixture.In("a")))},
	{"a node by an unknown field", "didn't match Pod's node affinity", requiresNode(v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{fixture.In("spec.colour", "red")}})},
	{"a node by two names at once", "didn't satisfy plugin(s) [NodeAffinity]", requiresNode(fixture.NodeNameTerm("a", "b"))},
	{"a node by no name", "pod affinity terms conflict", requiresNode(fixture.NodeNameTerm())},
	{"a node by a name that exists", "didn't match Pod's node affinity", requiresNode(v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpExists}}})},
	{"a node that does not exist", "didn't satisfy plugin(s) [NodeAffinity]", requiresNode(fixture.NodeNameTerm("nowhere"))},
	{"one of two nodes that do not exist", "didn't satisfy plugin(s) [NodeAffinity]", requiresNode(fixture.NodeNameTerm("nowhere"), fixture.NodeNameTerm("nowhere-else"))},
	{"a node selector with an invalid key", "didn't match Pod's node affinity", func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"no label": "no value!"} }},
}

// manyTerms is about as many terms as fit into an object in etcd.
const manyTerms = 10000

var unboundedTerms = []Pod{
	{"ten thousand terms of affinity", "didn't match pod affinity rules", func(p *v1.Pod) {
		for i := range manyTerms {
			requiresPodAffinity(v1.PodAffinityTerm{TopologyKey: "k", LabelSelector: fixture.LabelSelector("a", fmt.Sprint(i))})(p)
		}
	}},
	{"ten thousand terms of anti-affinity", "", func(p *v1.Pod) {
		for i := range manyTerms {
			requiresPodAntiAffinity(v1.PodAffinityTerm{TopologyKey: "k", LabelSelector: fixture.LabelSelector("a", fmt.Sprint(i))})(p)
		}
	}},
	{"ten thousand preferred nodes", "", func(p *v1.Pod) {
		affinity := &v1.NodeAffinity{}
		for i := range manyTerms {
			affinity.PreferredDuringSchedulingIgnoredDuringExecution = append(affinity.PreferredDuringSchedulingIgnoredDuringExecution,
				v1.PreferredSchedulingTerm{Weight: math.MaxInt32, Preference: fixture.NodeSelectorTerm(fixture.NotIn("a", fmt.Sprint(i)))})
		}
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: affinity}
	}},
	{"ten thousand tolerations", "", func(p *v1.Pod) {
		for i := range manyTerms {
			p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{Key: fmt.Sprint(i), Operator: v1.TolerationOpExists})
		}
	}},
	{"a thousand constraints", "", func(p *v1.Pod) {
		for i := range 1000 {
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, fixture.SoftSpreadConstraint(fmt.Sprint("k", i), "a", fmt.Sprint(i)))
		}
	}},
}

var badQuantities = []Pod{
	{"a negative request for cpu", "", requests("cpu", "-1")},
	{"a negative request for memory", "", requests("memory", "-5Gi")},
	{"a negative request for an extended resource", "", requests("example.com/gpu", "-1")},
	{"a request that overflows in millicores", "", requests("cpu", "9223372036854775807")},
	{"a request that overflows", "", requests("memory", "9e40")},
	{"requests that overflow when they are added", "", func(p *v1.Pod) {
		requests("memory", "9223372036854775807")(p)
		requests("memory", "9223372036854775807")(p)
	}},
	{"extended resources that overflow when they are added", "", func(p *v1.Pod) {
		requests("example.com/gpu", "9223372036854775807")(p)
		requests("example.com/gpu", "9223372036854775807")(p)
	}},
	{"a request for an invalid resource name", "", requests("no resource!", "1")},
	{"a request for a resource without a name", "", requests("", "1")},
	{"a negative overhead", "", func(p *v1.Pod) { p.Spec.Overhead = fixture.Resources("cpu", "-1", "memory", "-1Gi") }},
	{"pod-level requests below the containers'", "", func(p *v1.Pod) {
		requests("cpu", "1")(p)
		p.Spec.Resources = &v1.ResourceRequirements{Requests: fixture.Resources("cpu", "-1")}
	}},
	{"negative requests in its status", "", func(p *v1.Pod) {
		requests("cpu", "1")(p)
		p.Status.ContainerStatuses = []v1.ContainerStatus{{
			Name: p.Spec.Containers[0].Name, AllocatedResources: fixture.Resources("cpu", "-1"),
			Resources: &v1.ResourceRequirements{Requests: fixture.Resources("cpu", "-2")},
		}}
	}},
}

var badNumbers = []Pod{
	{"a negative skew", "didn't match pod topology spread constraints", hasSpreadConstraints(spreadConstraint(func(c *v1.TopologySpreadConstraint) { c.MaxSkew = -1 }))},
	{"a negative number of domains", "", hasSpreadConstraints(spreadConstraint(func(c *v1.TopologySpreadConstraint) { c.MinDomains = new(int32(-3)) }))},
	{"more domains than there can be", "", hasSpreadConstraints(spreadConstraint(func(c *v1.TopologySpreadConstraint) { c.MinDomains = new(int32(math.MaxInt32)) }))},
	{"unknown policies", "", hasSpreadConstraints(spreadConstraint(func(c *v1.TopologySpreadConstraint) {
		c.NodeAffinityPolicy, c.NodeTaintsPolicy = new(v1.NodeInclusionPolicy("Maybe")), new(v1.NodeInclusionPolicy("Maybe"))
	}))},
	{"an unknown action", "", hasSpreadConstraints(spreadConstraint(func(c *v1.TopologySpreadConstraint) { c.WhenUnsatisfiable = "Maybe" }))},
	{"the same constraint twice", "", hasSpreadConstraints(spreadConstraint(nil), spreadConstraint(nil))},
	{"preferences with extreme weights", "", func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{
			PodAffinity: &v1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.WeightedPodAffinityTerm{
				{Weight: math.MaxInt32, PodAffinityTerm: fixture.PodAffinityTerm(v1.LabelHostname, "app", "web")},
			}},
			PodAntiAffinity: &v1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.WeightedPodAffinityTerm{
				{Weight: math.MinInt32, PodAffinityTerm: fixture.PodAffinityTerm(v1.LabelHostname, "app", "web")},
			}},
		}
	}},
	{"host ports out of range", "", func(p *v1.Pod) {
		p.Spec.Containers[0].Ports = []v1.ContainerPort{
			{HostPort: -1, HostIP: "nowhere", Protocol: "PIGEON"}, {HostPort: math.MaxInt32}, {HostPort: math.MinInt32},
		}
	}},
	{"the lowest possible priority", "", func(p *v1.Pod) { p.Spec.Priority = new(int32(math.MinInt32)) }},
	{"a toleration with Gt and a string", "", func(p *v1.Pod) {
		p.Spec.Tolerations = []v1.Toleration{{Key: "a", Operator: v1.TolerationOpGt, Value: "b"}, {Operator: "Resembles"}, {Effect: "Sometimes"}}
	}},
}

var otherBadPods = []Pod{
	{"no containers", "", func(p *v1.Pod) { p.Spec.Containers = nil }},
	{"containers without anything", "", func(p *v1.Pod) { p.Spec.Containers = make([]v1.Container, 3) }},
	{"init containers with an unknown restart policy", "", func(p *v1.Pod) {
		unknown := v1.ContainerRestartPolicy("Somehow")
		p.Spec.InitContainers = []v1.Container{{Name: "i", RestartPolicy: &unknown}}
	}},
	{"restart rules without anything", "", func(p *v1.Pod) { p.Spec.Containers[0].RestartPolicyRules = make([]v1.ContainerRestartRule, 2) }},
	{"volumes without anything", "", func(p *v1.Pod) { p.Spec.Volumes = make([]v1.Volume, 3) }},
	{"two controllers without names", "", func(p *v1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Controller: new(true)}, {Controller: new(true), APIVersion: "a/b/c", Kind: "ReplicaSet"}}
	}},
	{"an unknown preemption policy", "", func(p *v1.Pod) { p.Spec.PreemptionPolicy = new(v1.PreemptionPolicy("Sometimes")) }},
	{"a nomination for a node that does not exist", "", func(p *v1.Pod) { p.Status.NominatedNodeName = "nowhere" }},
	{"invalid labels", "", func(p *v1.Pod) { p.Labels = map[string]string{"no label": "no value!", "": ""} }},
}

func selector(key string, operator metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
}

func affinityOf(p *v1.Pod) *v1.Affinity {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{}, PodAntiAffinity: &v1.PodAntiAffinity{}}
	}
	return p.Spec.Affinity
}

func requiresNode(terms ...v1.NodeSelectorTerm) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: terms},
		}}
	}
}

func requiresPodAffinity(term v1.PodAffinityTerm) func(*v1.Pod) {
	return func(p *v1.Pod) {
		list := &affinityOf(p).PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		*list = append(*list, term)
	}
}

func requiresPodAntiAffinity(term v1.PodAffinityTerm) func(*v1.Pod) {
	return func(p *v1.Pod) {
		list := &affinityOf(p).PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		*list = append(*list, term)
	}
}

func prefersPodAffinity(term v1.PodAffinityTerm) func(*v1.Pod) {
	return func(p *v1.Pod) {
		list := &affinityOf(p).PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		*list = append(*list, v1.WeightedPodAffinityTerm{Weight: 1, PodAffinityTerm: term})
	}
}

func hasSpreadConstraints(constraints ...v1.TopologySpreadConstraint) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Labels = map[string]string{"app": "web"}
		p.Spec.TopologySpreadConstraints = constraints
	}
}

// spreadConstraint returns a valid constraint with a change applied.
func spreadConstraint(change func(*v1.TopologySpreadConstraint)) v1.TopologySpreadConstraint {
	c := fixture.HardSpreadConstraint(v1.LabelHostname, "app", "web")
	if change != nil {
		change(&c)
	}
	return c
}

// requests adds a container that requests an amount of a resource.
func requests(name v1.ResourceName, amount string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{
			Name:      fmt.Sprintf("c%d", len(p.Spec.Containers)),
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{name: resource.MustParse(amount)}},
		})
	}
}
