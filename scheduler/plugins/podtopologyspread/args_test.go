package podtopologyspread

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/plugintest"
)

func TestValidate(t *testing.T) {
	good := defaultConstraint("zone", v1.DoNotSchedule)
	change := func(do func(*v1.TopologySpreadConstraint)) *configv1.PodTopologySpreadArgs {
		bad := good
		do(&bad)
		return argsWithDefaults(bad)
	}
	for name, c := range map[string]struct {
		args *configv1.PodTopologySpreadArgs
		want []string
	}{
		"the defaults are valid":            {args: &configv1.PodTopologySpreadArgs{}},
		"an empty list is valid":            {args: argsWithDefaults()},
		"one key with two actions is valid": {args: argsWithDefaults(good, defaultConstraint("zone", v1.ScheduleAnyway))},
		"System is invalid with a list":     {args: &configv1.PodTopologySpreadArgs{DefaultConstraints: argsWithDefaults(good).DefaultConstraints}, want: []string{"args.defaultingType"}},
		"another type is invalid":           {args: &configv1.PodTopologySpreadArgs{DefaultingType: "Both"}, want: []string{"args.defaultingType"}},
		"a maxSkew of 0 is invalid":         {args: change(func(c *v1.TopologySpreadConstraint) { c.MaxSkew = 0 }), want: []string{"args.defaultConstraints[0].maxSkew"}},
		"a key is required":                 {args: change(func(c *v1.TopologySpreadConstraint) { c.TopologyKey = "" }), want: []string{"args.defaultConstraints[0].topologyKey"}},
		"a key must be a label key":         {args: change(func(c *v1.TopologySpreadConstraint) { c.TopologyKey = "no good" }), want: []string{"args.defaultConstraints[0].topologyKey"}},
		"an action is required":             {args: change(func(c *v1.TopologySpreadConstraint) { c.WhenUnsatisfiable = "" }), want: []string{"args.defaultConstraints[0].whenUnsatisfiable"}},
		"another action is invalid":         {args: change(func(c *v1.TopologySpreadConstraint) { c.WhenUnsatisfiable = "Wait" }), want: []string{"args.defaultConstraints[0].whenUnsatisfiable"}},
		"a selector is invalid":             {args: change(func(c *v1.TopologySpreadConstraint) { c.LabelSelector = fixture.LabelSelector() }), want: []string{"args.defaultConstraints[0].labelSelector"}},
		"a duplicate constraint is invalid": {args: argsWithDefaults(good, good), want: []string{"args.defaultConstraints[1]"}},
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
	if _, err := New(t.Context(), argsWithDefaults(), nil); err == nil {
		t.Error("built without a handle, want an error")
	}
}

func TestOnlyPodsThatAreNotSpreadAreSigned(t *testing.T) {
	for name, c := range map[string]struct {
		args *configv1.PodTopologySpreadArgs
		pod  *fixture.PodBuilder
		want bool
	}{
		"a pod without constraints, with no defaults": {args: argsWithDefaults(), pod: webPod("new"), want: true},
		"a pod with constraints":                      {args: argsWithDefaults(), pod: webPod("new").Spread(zoneConstraint())},
		"any pod, with defaults":                      {pod: webPod("new")},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := newPlugin(t, c.args)
			if _, status := p.SignPod(t.Context(), c.pod.Obj()); status.IsSuccess() != c.want {
				t.Errorf("signed: %v, want %v", status, c.want)
			}
		})
	}
}
