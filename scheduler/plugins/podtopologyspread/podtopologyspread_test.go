package podtopologyspread

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berthdev/berth/test/fixture"
	"github.com/berthdev/berth/test/scene"
)

// play returns the plugin in a scene; without args it has its defaults.
func play(t *testing.T, args *configv1.PodTopologySpreadArgs, objects ...runtime.Object) (*Plugin, *scene.Scene) {
	t.Helper()
	if args == nil {
		args = &configv1.PodTopologySpreadArgs{}
	}
	Default(args)
	s := scene.New(objects...)
	plugin, err := New(t.Context(), args, s)
	if err != nil {
		t.Fatal(err)
	}
	return plugin.(*Plugin), s
}

// byList are arguments with default constraints.
func byList(constraints ...v1.TopologySpreadConstraint) *configv1.PodTopologySpreadArgs {
	return &configv1.PodTopologySpreadArgs{DefaultConstraints: constraints, DefaultingType: configv1.ListDefaulting}
}

// byDefault is a default constraint: it has no selector.
func byDefault(topology string, action v1.UnsatisfiableConstraintAction) v1.TopologySpreadConstraint {
	return v1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: topology, WhenUnsatisfiable: action}
}

// evenly spreads the pods of app=web over zones, and is changed by changes.
func evenly(changes ...func(*v1.TopologySpreadConstraint)) v1.TopologySpreadConstraint {
	c := fixture.Evenly("zone", "app", "web")
	for _, change := range changes {
		change(&c)
	}
	return c
}

func minDomains(n int32) func(*v1.TopologySpreadConstraint) {
	return func(c *v1.TopologySpreadConstraint) { c.MinDomains = &n }
}

func maxSkew(n int32) func(*v1.TopologySpreadConstraint) {
	return func(c *v1.TopologySpreadConstraint) { c.MaxSkew = n }
}

func affinityPolicy(policy v1.NodeInclusionPolicy) func(*v1.TopologySpreadConstraint) {
	return func(c *v1.TopologySpreadConstraint) { c.NodeAffinityPolicy = &policy }
}

func taintsPolicy(policy v1.NodeInclusionPolicy) func(*v1.TopologySpreadConstraint) {
	return func(c *v1.TopologySpreadConstraint) { c.NodeTaintsPolicy = &policy }
}

func matching(keys ...string) func(*v1.TopologySpreadConstraint) {
	return func(c *v1.TopologySpreadConstraint) { c.MatchLabelKeys = keys }
}

func selector(s *metav1.LabelSelector) func(*v1.TopologySpreadConstraint) {
	return func(c *v1.TopologySpreadConstraint) { c.LabelSelector = s }
}

// broken is a selector that the API server lets through and nobody can parse.
func broken() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}}}
}

func web(name string) *fixture.PodBuilder { return fixture.Pod(name).Label("app", "web") }

// zones are three nodes in two zones with two pods in a and one in b.
func zones() []runtime.Object {
	return []runtime.Object{
		fixture.Node("a1").Label("zone", "a").Obj(), fixture.Node("a2").Label("zone", "a").Obj(), fixture.Node("b1").Label("zone", "b").Obj(),
		web("1").On("a1").Obj(), web("2").On("a2").Obj(), web("3").On("b1").Obj(),
	}
}
