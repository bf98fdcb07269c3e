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

	"github.com/berthdev/berth/test/fixture"
	"github.com/berthdev/berth/test/scene"
)

// play returns the plugin in a scene; without args it has its defaults.
func newPlugin(t *testing.T, args *configv1.InterPodAffinityArgs, objects ...runtime.Object) (*Plugin, *scene.Cluster) {
	t.Helper()
	if args == nil {
		args = &configv1.InterPodAffinityArgs{}
	}
	Default(args)
	s := scene.NewCluster(objects...)
	plugin, err := New(t.Context(), args, s)
	if err != nil {
		t.Fatal(err)
	}
	return plugin.(*Plugin), s
}

// hardWeight are arguments with another hardPodAffinityWeight.
func withHardPodAffinityWeight(weight int32) *configv1.InterPodAffinityArgs {
	return &configv1.InterPodAffinityArgs{HardPodAffinityWeight: &weight}
}

// near is a term about the pods of app=value in the zone, changed by changes.
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

// broken is a term that the API server lets through and nobody can parse.
func unparsableTerm() v1.PodAffinityTerm {
	return affinityTerm("", withSelector(&metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}},
	}))
}

// app is a pod with the label app=value.
func appPod(key, value string) *fixture.PodBuilder { return fixture.Pod(key).Label("app", value) }

// zones are two nodes in zone a, one in b, one in none, and a web pod on a1.
// The namespaces shop and mail belong to team x and y.
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
	for sentence, c := range map[string]struct {
		args *configv1.InterPodAffinityArgs
		want []string
	}{
		"none at all are good":     {args: &configv1.InterPodAffinityArgs{}},
		"no weight is good":        {args: withHardPodAffinityWeight(0)},
		"the largest is good":      {args: withHardPodAffinityWeight(100)},
		"more than it is not":      {args: withHardPodAffinityWeight(101), want: []string{"args.hardPodAffinityWeight"}},
		"less than nothing is not": {args: withHardPodAffinityWeight(-1), want: []string{"args.hardPodAffinityWeight"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			Default(c.args)
			var got []string
			for _, err := range Validate(c.args, field.NewPath("args")) {
				got = append(got, err.Field)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("fields at fault (-want +got):\n%s", diff)
			}
			if _, err := New(t.Context(), c.args, scene.NewCluster()); (err != nil) != (len(c.want) > 0) {
				t.Errorf("New says %v, want an error: %v", err, len(c.want) > 0)
			}
		})
	}
}

func TestNewRequiresArgumentsAndAHandleWithCounts(t *testing.T) {
	if _, err := New(t.Context(), nil, scene.NewCluster()); err == nil {
		t.Error("built without arguments, want an error")
	}
	if _, err := New(t.Context(), &configv1.InterPodAffinityArgs{}, scene.NewCluster()); err == nil {
		t.Error("built without a weight, want an error")
	}
	if _, err := New(t.Context(), withHardPodAffinityWeight(1), nil); err == nil {
		t.Error("built without a handle, want an error")
	}
}

func TestPodsAreSignedWithTheirLabels(t *testing.T) {
	for sentence, c := range map[string]struct {
		args *configv1.InterPodAffinityArgs
		pod  *fixture.PodBuilder
		want []fwk.SignFragment
		code fwk.Code
	}{
		"others may match them": {
			pod: appPod("new", "web"), want: []fwk.SignFragment{{Key: fwk.LabelsSignerName, Value: map[string]string{"app": "web"}}},
		},
		"they do not matter where others are not asked": {
			args: &configv1.InterPodAffinityArgs{IgnorePreferredTermsOfExistingPods: true}, pod: appPod("new", "web"),
		},
		"a pod with terms is not signed": {pod: appPod("new", "web").PreferPodAffinity(1, affinityTerm("web")), code: fwk.Unschedulable},
	} {
		t.Run(sentence, func(t *testing.T) {
			p, _ := newPlugin(t, c.args)
			got, status := p.SignPod(t.Context(), c.pod.Obj())
			if diff := cmp.Diff(c.want, got); diff != "" || status.Code() != c.code {
				t.Errorf("status %v, want %v; fragments (-want +got):\n%s", status, c.code, diff)
			}
		})
	}
}
