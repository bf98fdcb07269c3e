package podtopologyspread

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/plugintest"
)

// newPlugin returns the plugin in a cluster of objects. Nil args stand for the
// defaults.
func newPlugin(t *testing.T, args *configv1.PodTopologySpreadArgs, objects ...runtime.Object) (*Plugin, *plugintest.Cluster) {
	t.Helper()
	if args == nil {
		args = &configv1.PodTopologySpreadArgs{}
	}
	Default(args)
	s := plugintest.NewCluster(objects...)
	plugin, err := New(t.Context(), args, s)
	if err != nil {
		t.Fatal(err)
	}
	return plugin.(*Plugin), s
}

// argsWithDefaults returns arguments with these default constraints.
func argsWithDefaults(constraints ...v1.TopologySpreadConstraint) *configv1.PodTopologySpreadArgs {
	return &configv1.PodTopologySpreadArgs{DefaultConstraints: constraints, DefaultingType: configv1.ListDefaulting}
}

// defaultConstraint returns a default constraint, which has no selector.
func defaultConstraint(topology string, action v1.UnsatisfiableConstraintAction) v1.TopologySpreadConstraint {
	return v1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: topology, WhenUnsatisfiable: action}
}

// zoneConstraint spreads the pods with the label app=web over zones; changes are
// applied to it.
func zoneConstraint(changes ...func(*v1.TopologySpreadConstraint)) v1.TopologySpreadConstraint {
	c := fixture.HardSpreadConstraint("zone", "app", "web")
	for _, change := range changes {
		change(&c)
	}
	return c
}

func withMinDomains(n int32) func(*v1.TopologySpreadConstraint) {
	return func(c *v1.TopologySpreadConstraint) { c.MinDomains = &n }
}

func withMaxSkew(n int32) func(*v1.TopologySpreadConstraint) {
	return func(c *v1.TopologySpreadConstraint) { c.MaxSkew = n }
}

func withNodeAffinityPolicy(policy v1.NodeInclusionPolicy) func(*v1.TopologySpreadConstraint) {
	return func(c *v1.TopologySpreadConstraint) { c.NodeAffinityPolicy = &policy }
}

func withNodeTaintsPolicy(policy v1.NodeInclusionPolicy) func(*v1.TopologySpreadConstraint) {
	return func(c *v1.TopologySpreadConstraint) { c.NodeTaintsPolicy = &policy }
}

func withMatchLabelKeys(keys ...string) func(*v1.TopologySpreadConstraint) {
	return func(c *v1.TopologySpreadConstraint) { c.MatchLabelKeys = keys }
}

func withSelector(s *metav1.LabelSelector) func(*v1.TopologySpreadConstraint) {
	return func(c *v1.TopologySpreadConstraint) { c.LabelSelector = s }
}

// unparsableSelector is a selector that the API server accepts and that does not parse.
func unparsableSelector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}}}
}

func webPod(name string) *fixture.PodBuilder { return fixture.Pod(name).Label("app", "web") }

// zonedCluster returns three nodes in two zones with two pods in zone a and one in zone
// b.
func zonedCluster() []runtime.Object {
	return []runtime.Object{
		fixture.Node("a1").Label("zone", "a").Obj(), fixture.Node("a2").Label("zone", "a").Obj(), fixture.Node("b1").Label("zone", "b").Obj(),
		webPod("1").On("a1").Obj(), webPod("2").On("a2").Obj(), webPod("3").On("b1").Obj(),
	}
}
