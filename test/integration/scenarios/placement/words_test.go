package placement

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/support/fixture"
)

// The words that the tables share.

const (
	host = v1.LabelHostname
	zone = v1.LabelTopologyZone
	area = v1.LabelTopologyRegion
)

// Why a node is no place for a pod, as kube-scheduler says it.
const (
	notNear     = "node(s) didn't match pod affinity rules"
	notApart    = "node(s) didn't match pod anti-affinity rules"
	notWanted   = "node(s) didn't satisfy existing pods anti-affinity rules"
	notEven     = "node(s) didn't match pod topology spread constraints"
	notSelected = "node(s) didn't match Pod's node affinity/selector"
	tainted     = "node(s) had untolerated taint(s)"
	cordoned    = "node(s) were unschedulable"
	portTaken   = "node(s) didn't have free ports for the requested pod ports"
	featureless = "node(s) didn't match Pod's required features"
)

// nodes are builders in a row.
func nodes(all ...*fixture.NodeBuilder) []*fixture.NodeBuilder { return all }

// pods are builders in a row.
func pods(all ...*fixture.PodBuilder) []*fixture.PodBuilder { return all }

// closedOff is a node that comes last and takes nobody: Berth knows all that
// was said about nodes before when it knows this one.
func closedOff() *fixture.NodeBuilder {
	return fixture.Node("last").Taint("closed", "off", v1.TaintEffectNoSchedule)
}

// web starts a pod that carries app=web, like those of crowd.
func web(name string) *fixture.PodBuilder { return fixture.Pod(name).Label("app", "web") }

// crowd is a pod with app=web on each of nodes, which may be named again.
func crowd(nodes ...string) []*fixture.PodBuilder {
	var all []*fixture.PodBuilder
	for i, node := range nodes {
		all = append(all, web(fmt.Sprint("old", i)).On(node))
	}
	return all
}

// Requirements of pods' labels.

func in(key string, values ...string) metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: values}
}

func notIn(key string, values ...string) metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpNotIn, Values: values}
}

func has(key string) metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpExists}
}

func lacks(key string, values ...string) metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpDoesNotExist, Values: values}
}

// by is an affinity term for pods in one domain of topology that meet all
// requirements.
func by(topology string, requirements ...metav1.LabelSelectorRequirement) v1.PodAffinityTerm {
	return v1.PodAffinityTerm{TopologyKey: topology, LabelSelector: &metav1.LabelSelector{MatchExpressions: requirements}}
}

// alike narrows a term to pods that have the same value as the incoming one.
func alike(term v1.PodAffinityTerm, key string) v1.PodAffinityTerm {
	term.MatchLabelKeys = []string{key}
	return term
}

// unlike narrows a term to pods that have another value than the incoming one.
func unlike(term v1.PodAffinityTerm, key string) v1.PodAffinityTerm {
	term.MismatchLabelKeys = []string{key}
	return term
}

// within is a term about pods in namespaces of that team; all where it is empty.
func within(term v1.PodAffinityTerm, team string) v1.PodAffinityTerm {
	term.NamespaceSelector = &metav1.LabelSelector{}
	if team != "" {
		term.NamespaceSelector.MatchLabels = map[string]string{"team": team}
	}
	return term
}
