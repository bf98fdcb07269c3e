package plugins_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
)

// The extension points are those of kube-scheduler 1.37.
func TestInTreePluginsHaveUpstreamExtensionPoints(t *testing.T) {
	want := map[string]string{
		"SchedulingGates":                 "preEnqueue",
		"PrioritySort":                    "queueSort",
		"NodeName":                        "preFilter filter",
		"NodeUnschedulable":               "preFilter filter",
		"TaintToleration":                 "preFilter filter preScore score",
		"NodeAffinity":                    "preFilter filter preScore score",
		"NodePorts":                       "preFilter filter",
		"NodeResourcesFit":                "preFilter filter preScore score",
		"NodeResourcesBalancedAllocation": "preScore score",
		"ImageLocality":                   "score",
		"VolumeRestrictions":              "preFilter filter",
		"NodeVolumeLimits":                "preFilter filter",
		"VolumeBinding":                   "preFilter filter preScore score reserve preBind",
		"VolumeZone":                      "preFilter filter",
		"PodTopologySpread":               "preFilter filter preScore score",
		"InterPodAffinity":                "preFilter filter preScore score",
		"DefaultPreemption":               "preEnqueue postFilter",
		"DynamicResources":                "preEnqueue preFilter filter postFilter score reserve preBind",
		"DefaultBinder":                   "bind",
		"GangScheduling":                  "preEnqueue permit",
		"NodeDeclaredFeatures":            "preFilter filter",
		// Last in Kubernetes 1.22.
		"ServiceAffinity":     "preFilter filter score",
		"NodePreferAvoidPods": "score",
	}
	got := map[string]string{}
	for name, plugin := range plugins.InTree() {
		var points []string
		for _, point := range plugin.Points {
			points = append(points, string(point))
		}
		got[name] = strings.Join(points, " ")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("points (-want +got):\n%s", diff)
	}
}

func TestInTreePluginsBuildFromTheirDefaults(t *testing.T) {
	for name, registration := range plugins.InTree() {
		var args runtime.Object
		if registration.NewArgs != nil {
			args = registration.NewArgs()
		}
		if registration.Default != nil {
			registration.Default(args)
		}
		if registration.Validate != nil {
			if errs := registration.Validate(args, field.NewPath("args")); len(errs) > 0 {
				t.Errorf("%s: the defaults are invalid: %v", name, errs)
			}
		}
		plugin, err := registration.New(t.Context(), args, newFakeHandle(1))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if plugin.Name() != name {
			t.Errorf("%s has the name %s", name, plugin.Name())
		}
		if diff := cmp.Diff(registration.Points, framework.PointsOf(plugin)); diff != "" {
			t.Errorf("%s: points of the type and of an instance (-type +instance):\n%s", name, diff)
		}
	}
}

// quota is an out-of-tree plugin.
type quota struct{ limit int32 }

func (*quota) Name() string { return "Quota" }
func (*quota) Filter(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) *fwk.Status {
	return nil
}

// pluginWithoutPoints implements no extension point.
type pluginWithoutPoints struct{}

func (*pluginWithoutPoints) Name() string { return "Idle" }

// argsByValue is a type of arguments that nothing can be decoded into, since it is not
// a pointer.
type argsByValue struct{}

func (argsByValue) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }
func (b argsByValue) DeepCopyObject() runtime.Object { return b }

func newQuota(_ context.Context, args runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
	typed, ok := args.(*configv1.InterPodAffinityArgs)
	if !ok {
		return nil, fmt.Errorf("args: is a %T", args)
	}
	return &quota{limit: *typed.HardPodAffinityWeight}, nil
}

func TestAnOutOfTreePluginIsRegisteredInOneLine(t *testing.T) {
	inTreeRegistry := plugins.InTree()
	registry, err := plugins.With(inTreeRegistry,
		plugins.Register("Quota", newQuota, (*quota)(nil), (*configv1.InterPodAffinityArgs)(nil),
			plugins.WithDefault(func(args *configv1.InterPodAffinityArgs) {
				limit := int32(7)
				args.HardPodAffinityWeight = &limit
			}),
			plugins.WithValidation(func(args *configv1.InterPodAffinityArgs, path *field.Path) field.ErrorList {
				return field.ErrorList{field.Invalid(path.Child("hardPodAffinityWeight"), *args.HardPodAffinityWeight, "is odd")}
			})))
	if err != nil {
		t.Fatal(err)
	}
	if len(inTreeRegistry) != len(registry)-1 {
		t.Errorf("%d plugins became %d, want one more and an unchanged first registry", len(inTreeRegistry), len(registry))
	}
	registration := registry["Quota"]
	if diff := cmp.Diff([]framework.Point{framework.Filter}, registration.Points); diff != "" {
		t.Errorf("points (-want +got):\n%s", diff)
	}
	args := registration.NewArgs()
	registration.Default(args)
	errs := registration.Validate(args, field.NewPath("args"))
	if len(errs) != 1 || errs[0].Field != "args.hardPodAffinityWeight" {
		t.Errorf("errors %v, want one about args.hardPodAffinityWeight", errs)
	}
	if errs := registration.Validate(&configv1.NodeAffinityArgs{}, field.NewPath("args")); len(errs) != 1 {
		t.Errorf("errors %v, want one about arguments of another type", errs)
	}
	plugin, err := registration.New(t.Context(), args, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := plugin.(*quota).limit; got != 7 {
		t.Errorf("the plugin was built with %d, want the default 7", got)
	}
}

func TestWithSaysWhyAPluginCannotBeUsed(t *testing.T) {
	for name, c := range map[string]struct {
		plugin framework.Registration
		want   string
	}{
		"a name that is registered already": {
			plugin: plugins.Register("NodeName", newQuota, (*quota)(nil), nil), want: `plugin "NodeName": is registered already`,
		},
		"no name":                          {plugin: plugins.Register("", newQuota, (*quota)(nil), nil), want: "the name is empty"},
		"no factory":                       {plugin: plugins.Register("Quota", nil, (*quota)(nil), nil), want: `plugin "Quota": the factory is nil`},
		"no extension point":               {plugin: plugins.Register("Idle", newQuota, (*pluginWithoutPoints)(nil), nil), want: "implements no extension point"},
		"arguments that are not a pointer": {plugin: plugins.Register("Quota", newQuota, (*quota)(nil), argsByValue{}), want: "want a pointer to a struct"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := plugins.With(plugins.InTree(), c.plugin); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestNeedsUntrimmedPods(t *testing.T) {
	register := func(options ...plugins.Option) framework.Registration {
		return plugins.Register("Other", newQuota, (*quota)(nil), nil, options...)
	}
	for name, c := range map[string]struct {
		more []framework.Registration
		want bool
	}{
		"no in-tree plugin":                             {nil, false},
		"an out-of-tree plugin":                         {[]framework.Registration{register()}, true},
		"an out-of-tree plugin that reads trimmed pods": {[]framework.Registration{register(plugins.ReadsTrimmedPods())}, false},
		"one of two out-of-tree plugins":                {[]framework.Registration{register(plugins.ReadsTrimmedPods()), {Name: "More", New: newQuota, Points: framework.Points}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			registry, err := plugins.With(plugins.InTree(), c.more...)
			if err != nil {
				t.Fatal(err)
			}
			if got := plugins.NeedsUntrimmedPods(registry); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
