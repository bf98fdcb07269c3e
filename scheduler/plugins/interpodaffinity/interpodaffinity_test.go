package interpodaffinity

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/plugintest"
)

// newPlugin returns the plugin in a cluster of objects. Nil args stand for the
// defaults.
func newPlugin(t *testing.T, args *configv1.InterPodAffinityArgs, objects ...runtime.Object) (*Plugin, *plugintest.Cluster) {
	t.Helper()
	if args == nil {
		args = &configv1.InterPodAffinityArgs{}
	}
	Default(args)
	s := plugintest.NewCluster(objects...)
	plugin, err := New(t.Context(), args, s)
	if err != nil {
		t.Fatal(err)
	}
	return plugin.(*Plugin), s
}

// withHardPodAffinityWeight returns arguments with this hardPodAffinityWeight.
func withHardPodAffinityWeight(weight int32) *configv1.InterPodAffinityArgs {
	return &configv1.InterPodAffinityArgs{HardPodAffinityWeight: &weight}
}

// affinityTerm selects the pods with the label app=value in the same zone; changes are
// applied to it.
func affinityTerm(value string, changes ...func(*v1.PodAffinityTerm)) v1.PodAffinityTerm {
	term := fixture.PodAffinityTerm("zone", "app", value)
	for _, change := range changes {
		change(&term)
	}
	return term
}

func withNamespaces(names ...string) func(*v1.PodAffinityTerm) {
	return func(t *v1.PodAffinityTerm) { t.Namespaces = names }
}

func withNamespaceSelector(labels ...string) func(*v1.PodAffinityTerm) {
	return func(t *v1.PodAffinityTerm) { t.NamespaceSelector = fixture.LabelSelector(labels...) }
}

func withTopologyKey(key string) func(*v1.PodAffinityTerm) {
	return func(t *v1.PodAffinityTerm) { t.TopologyKey = key }
}

func withSelector(selector *metav1.LabelSelector) func(*v1.PodAffinityTerm) {
	return func(t *v1.PodAffinityTerm) { t.LabelSelector = selector }
}

// unparsableTerm is a term that the API server accepts and that does not parse.
func unparsableTerm() v1.PodAffinityTerm {
	return affinityTerm("", withSelector(&metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}},
	}))
}

// appPod builds a pod with the label app=value.
func appPod(key, value string) *fixture.PodBuilder { return fixture.Pod(key).Label("app", value) }

// zonedCluster returns two nodes in zone a, one in zone b, one without a zone, and a
// web pod on a1. The namespaces shop and mail have the labels team=x and team=y.
func zonedCluster() []runtime.Object {
	return []runtime.Object{
		fixture.Node("a1").Label("zone", "a").Obj(), fixture.Node("a2").Label("zone", "a").Obj(),
		fixture.Node("b1").Label("zone", "b").Obj(), fixture.Node("stray").Obj(),
		appPod("web", "web").On("a1").Obj(),
		fixture.Namespace("default").Obj(),
		fixture.Namespace("shop").Label("team", "x").Obj(), fixture.Namespace("mail").Label("team", "y").Obj(),
	}
}

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		args *configv1.InterPodAffinityArgs
		want []string
	}{
		"the defaults are valid":       {args: &configv1.InterPodAffinityArgs{}},
		"a weight of 0 is valid":       {args: withHardPodAffinityWeight(0)},
		"the largest weight is valid":  {args: withHardPodAffinityWeight(100)},
		"a larger weight is invalid":   {args: withHardPodAffinityWeight(101), want: []string{"args.hardPodAffinityWeight"}},
		"a negative weight is invalid": {args: withHardPodAffinityWeight(-1), want: []string{"args.hardPodAffinityWeight"}},
	} {
		t.Run(name, func(t *testing.T) {
			Default(c.args)
			var got []string
			for _, err := range Validate(c.args, field.NewPath("args")) {
				got = append(got, err.Field)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("invalid fields (-want +got):\n%s", diff)
			}
			if _, err := New(t.Context(), c.args, plugintest.NewCluster()); (err != nil) != (len(c.want) > 0) {
				t.Errorf("New returns %v, want an error: %v", err, len(c.want) > 0)
			}
		})
	}
}

func TestNewRequiresArgumentsAndAHandleWithCounts(t *testing.T) {
	if _, err := New(t.Context(), nil, plugintest.NewCluster()); err == nil {
		t.Error("built without arguments, want an error")
	}
	if _, err := New(t.Context(), &configv1.InterPodAffinityArgs{}, plugintest.NewCluster()); err == nil {
		t.Error("built without a weight, want an error")
	}
	if _, err := New(t.Context(), withHardPodAffinityWeight(1), nil); err == nil {
		t.Error("built without a handle, want an error")
	}
}

func TestPodsAreSignedWithTheirLabels(t *testing.T) {
	for name, c := range map[string]struct {
		args *configv1.InterPodAffinityArgs
		pod  *fixture.PodBuilder
		want []fwk.SignFragment
		code fwk.Code
	}{
		"the terms of other pods may match the labels": {
			pod: appPod("new", "web"), want: []fwk.SignFragment{{Key: fwk.LabelsSignerName, Value: map[string]string{"app": "web"}}},
		},
		"the labels do not matter if the terms of other pods are ignored": {
			args: &configv1.InterPodAffinityArgs{IgnorePreferredTermsOfExistingPods: true}, pod: appPod("new", "web"),
		},
		"a pod with terms is not signed": {pod: appPod("new", "web").PreferPodAffinity(1, affinityTerm("web")), code: fwk.Unschedulable},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := newPlugin(t, c.args)
			got, status := p.SignPod(t.Context(), c.pod.Obj())
			if diff := cmp.Diff(c.want, got); diff != "" || status.Code() != c.code {
				t.Errorf("status %v, want %v; fragments (-want +got):\n%s", status, c.code, diff)
			}
		})
	}
}
