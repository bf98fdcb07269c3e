package plugins_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
)

// internalArgs is the type that a factory takes: without JSON names, like the internal
// types of versioned configuration APIs.
type internalArgs struct {
	metav1.TypeMeta
	Limit int32
	Zones []string
}

// versionedArgs is the type that profiles are decoded into.
type versionedArgs struct {
	metav1.TypeMeta `json:",inline"`
	Limit           *int32   `json:"limit,omitempty"`
	Zones           []string `json:"zones,omitempty"`
}

// olderArgs is of a version that the scheme has and does not prefer.
type olderArgs struct {
	metav1.TypeMeta `json:",inline"`
	Max             int32 `json:"max"`
}

func (a *internalArgs) DeepCopyObject() runtime.Object {
	return &internalArgs{a.TypeMeta, a.Limit, slices.Clone(a.Zones)}
}
func (a *versionedArgs) DeepCopyObject() runtime.Object {
	limit := a.Limit
	if limit != nil {
		limit = new(*limit)
	}
	return &versionedArgs{a.TypeMeta, limit, slices.Clone(a.Zones)}
}
func (a *olderArgs) DeepCopyObject() runtime.Object { return &olderArgs{a.TypeMeta, a.Max} }

var (
	preferredVersion = schema.GroupVersion{Group: "kubescheduler.config.k8s.io", Version: "v1"}
	olderVersion     = schema.GroupVersion{Group: preferredVersion.Group, Version: "v1beta3"}
	internalVersion  = schema.GroupVersion{Group: preferredVersion.Group, Version: runtime.APIVersionInternal}
)

// argumentScheme returns a scheme with QuotaArgs in three versions. converts converts
// the preferred version; nil registers no conversion.
func argumentScheme(t *testing.T, converts func(from *versionedArgs, into *internalArgs) error) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(internalVersion.WithKind("QuotaArgs"), &internalArgs{})
	scheme.AddKnownTypeWithName(olderVersion.WithKind("QuotaArgs"), &olderArgs{})
	scheme.AddKnownTypeWithName(preferredVersion.WithKind("QuotaArgs"), &versionedArgs{})
	if err := scheme.SetVersionPriority(preferredVersion, olderVersion); err != nil {
		t.Fatal(err)
	}
	scheme.AddTypeDefaultingFunc(&versionedArgs{}, func(object any) {
		if args := object.(*versionedArgs); args.Limit == nil {
			args.Limit = new(int32(7))
		}
	})
	if converts == nil {
		return scheme
	}
	if err := scheme.AddConversionFunc((*versionedArgs)(nil), (*internalArgs)(nil), func(from, into any, _ conversion.Scope) error {
		return converts(from.(*versionedArgs), into.(*internalArgs))
	}); err != nil {
		t.Fatal(err)
	}
	return scheme
}

// convertSharing shares slices between the two values, as generated conversions do.
func convertSharing(from *versionedArgs, into *internalArgs) error {
	if *from.Limit == 13 {
		return errors.New("limit: is 13")
	}
	into.Limit, into.Zones = *from.Limit, from.Zones
	return nil
}

// argsRecorder is a plugin that records its arguments.
type argsRecorder struct {
	quota
	args *internalArgs
}

func newArgsRecorder(_ context.Context, args runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
	typed, ok := args.(*internalArgs)
	if !ok {
		return nil, fmt.Errorf("args: is a %T", args)
	}
	return &argsRecorder{args: typed}, nil
}

func registryWithQuota(t *testing.T, scheme *runtime.Scheme, more ...plugins.Option) framework.Registry {
	t.Helper()
	registry, err := plugins.With(plugins.InTree(),
		plugins.Register("Quota", newArgsRecorder, (*argsRecorder)(nil), (*internalArgs)(nil), append(more, plugins.WithScheme(scheme))...))
	if err != nil {
		t.Fatal(err)
	}
	return registry
}

// quotaConfig returns a PluginConfig with these arguments.
func quotaConfig(args string) *v1alpha1.PluginConfig {
	config := &v1alpha1.PluginConfig{Spec: v1alpha1.PluginConfigSpec{Plugin: "Quota"}}
	config.Spec.Args.Raw = []byte(args)
	return config
}

func TestAFactoryGetsTheInternalTypeOfProfileArguments(t *testing.T) {
	registry := registryWithQuota(t, argumentScheme(t, convertSharing))
	profile := &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	profile.Spec.Plugins = &v1alpha1.Plugins{Filter: v1alpha1.PluginSet{Enabled: []v1alpha1.EnabledPlugin{{Name: "Quota"}}}}
	for name, c := range map[string]struct {
		args string
		want internalArgs
	}{
		"arguments that are set":          {`{"limit":3,"zones":["a"]}`, internalArgs{Limit: 3, Zones: []string{"a"}}},
		"arguments that are left out":     {`{"zones":["a"]}`, internalArgs{Limit: 7, Zones: []string{"a"}}},
		"no arguments at all":             {"", internalArgs{Limit: 7}},
		"arguments with version and kind": {`{"apiVersion":"kubescheduler.config.k8s.io/v1","kind":"QuotaArgs","limit":3}`, internalArgs{Limit: 3}},
		"a kind without arguments":        {`{"kind":"QuotaArgs"}`, internalArgs{Limit: 7}},
	} {
		t.Run(name, func(t *testing.T) {
			profile := profile.DeepCopy()
			if c.args != "" {
				profile.Spec.PluginConfig = []v1alpha1.PluginArguments{{Name: "Quota", Args: &runtime.RawExtension{Raw: []byte(c.args)}}}
			}
			blueprint, rejection := compile.Profile(compile.Input{Profile: profile, Registry: registry})
			if rejection != nil {
				t.Fatal(rejection.Message())
			}
			for range 2 {
				var built *argsRecorder
				recording := registry["Quota"]
				recording.New = func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
					plugin, err := newArgsRecorder(ctx, args, handle)
					built, _ = plugin.(*argsRecorder)
					return plugin, err
				}
				chains := framework.Chains{framework.QueueSort: {{Name: "PrioritySort"}}, framework.Filter: {{Name: "Quota"}}, framework.Bind: {{Name: "DefaultBinder"}}}
				f, err := framework.New(t.Context(), framework.Config{Profile: "p", Chains: chains, Args: blueprint.Args},
					framework.Registry{"Quota": recording, "PrioritySort": registry["PrioritySort"], "DefaultBinder": registry["DefaultBinder"]}, framework.Host{})
				if err != nil {
					t.Fatal(err)
				}
				f.Close()
				if diff := cmp.Diff(&c.want, built.args); diff != "" {
					t.Fatalf("the plugin was built with (-want +got):\n%s", diff)
				}
				// Changes that this instance makes to its arguments must not reach the next one.
				for i := range built.args.Zones {
					built.args.Zones[i] = "changed"
				}
			}
		})
	}
}

func TestArgumentsThatASchemeDescribesAreReadStrictly(t *testing.T) {
	registry := registryWithQuota(t, argumentScheme(t, convertSharing), plugins.WithValidation(func(args *internalArgs, path *field.Path) field.ErrorList {
		if args.Limit < 0 {
			return field.ErrorList{field.Invalid(path.Child("limit"), args.Limit, "must be positive")}
		}
		return nil
	}))
	for name, c := range map[string]struct{ args, path, detail string }{
		"an unknown field":                {`{"limits":3}`, "spec.args.limits", `unknown field: the plugin has no such argument, did you mean "limit"?`},
		"the name of the Go field":        {`{"Limit":3}`, "spec.args.Limit", `unknown field: the plugin has no such argument, did you mean "limit"?`},
		"a field of another version":      {`{"max":3}`, "spec.args.max", "unknown field: the plugin has no such argument"},
		"a wrong type":                    {`{"zones":["a",3]}`, "spec.args.zones[1]", "wrong type: must be a string, is a number"},
		"another kind":                    {`{"kind":"FitArgs"}`, "spec.args.kind", `must be "QuotaArgs" or left out, is "FitArgs"`},
		"another version":                 {`{"apiVersion":"kubescheduler.config.k8s.io/v1beta3"}`, "spec.args.apiVersion", `must be "kubescheduler.config.k8s.io/v1" or left out, is "kubescheduler.config.k8s.io/v1beta3"`},
		"a value that validation rejects": {`{"limit":-3}`, "spec.args.limit", "Invalid value: -3: must be positive"},
		"a value that conversion rejects": {`{"limit":13}`, "spec.args", "cannot be converted from kubescheduler.config.k8s.io/v1 to *plugins_test.internalArgs: limit: is 13"},
	} {
		t.Run(name, func(t *testing.T) {
			_, rejection := compile.Config(quotaConfig(c.args), registry)
			if rejection == nil {
				t.Fatal("the arguments were accepted")
			}
			want := []compile.FieldError{{Condition: string(v1alpha1.ConditionAccepted), Reason: string(v1alpha1.ReasonInvalidArguments), Path: c.path, Detail: c.detail}}
			if diff := cmp.Diff(want, rejection.Errors); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheHashCoversTheArgumentsThatHaveEffect(t *testing.T) {
	registry := registryWithQuota(t, argumentScheme(t, convertSharing))
	hash := func(args string) string {
		hash, rejection := compile.Config(quotaConfig(args), registry)
		if rejection != nil {
			t.Fatalf("%s: %s", args, rejection.Message())
		}
		return hash
	}
	for _, same := range []string{`{"limit":7}`, `{"apiVersion":"kubescheduler.config.k8s.io/v1"}`, `{"kind":"QuotaArgs","limit":7}`} {
		if hash(same) != hash(`{}`) {
			t.Errorf("%s has another hash than the defaults, to which it is equal", same)
		}
	}
	for _, other := range []string{`{"limit":8}`, `{"zones":["a"]}`} {
		if hash(other) == hash(`{}`) {
			t.Errorf("%s has the hash of the defaults", other)
		}
	}
}

func TestAFactoryMayTakeTheVersionedType(t *testing.T) {
	registration := plugins.Register("Quota", newQuota, (*quota)(nil), (*versionedArgs)(nil), plugins.WithScheme(argumentScheme(t, nil)))
	if registration.Err != nil {
		t.Fatal(registration.Err)
	}
	args := registration.NewArgs()
	registration.Default(args)
	got, err := registration.ConvertArgs(args)
	if err != nil {
		t.Fatal(err)
	}
	want := &versionedArgs{metav1.TypeMeta{APIVersion: preferredVersion.String(), Kind: "QuotaArgs"}, new(int32(7)), nil}
	if diff := cmp.Diff(runtime.Object(want), got); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
}

func TestWithDefaultFillsInWhatTheSchemeLeavesOut(t *testing.T) {
	fill := plugins.WithDefault(func(args *versionedArgs) {
		if args.Zones == nil {
			args.Zones = []string{fmt.Sprint("zone-", *args.Limit)}
		}
	})
	scheme := plugins.WithScheme(argumentScheme(t, convertSharing))
	for name, options := range map[string][]plugins.Option{"before WithScheme": {fill, scheme}, "after WithScheme": {scheme, fill}} {
		t.Run(name, func(t *testing.T) {
			registration := plugins.Register("Quota", newArgsRecorder, (*argsRecorder)(nil), (*internalArgs)(nil), options...)
			args := registration.NewArgs()
			registration.Default(args)
			got, err := registration.ConvertArgs(args)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(runtime.Object(&internalArgs{Limit: 7, Zones: []string{"zone-7"}}), got); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWithSaysWhyASchemeCannotBeUsed(t *testing.T) {
	onlyInternal := runtime.NewScheme()
	onlyInternal.AddKnownTypeWithName(internalVersion.WithKind("QuotaArgs"), &internalArgs{})
	for name, c := range map[string]struct {
		scheme *runtime.Scheme
		args   runtime.Object
		want   string
	}{
		"no scheme":                               {nil, &internalArgs{}, `plugin "Quota": WithScheme: the scheme is nil`},
		"no type of arguments":                    {argumentScheme(t, convertSharing), nil, "was registered without a type of arguments, want the one that its factory takes"},
		"a type that the scheme does not know":    {runtime.NewScheme(), &internalArgs{}, "the scheme does not know *plugins_test.internalArgs"},
		"a type without a version":                {onlyInternal, &internalArgs{}, "the scheme has no version of QuotaArgs.kubescheduler.config.k8s.io, which *plugins_test.internalArgs is the internal type of"},
		"a type that the scheme does not convert": {argumentScheme(t, nil), &internalArgs{}, "cannot be converted from kubescheduler.config.k8s.io/v1 to *plugins_test.internalArgs"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := plugins.With(plugins.InTree(), plugins.Register("Quota", newArgsRecorder, (*argsRecorder)(nil), c.args, plugins.WithScheme(c.scheme)))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}
