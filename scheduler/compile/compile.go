package compile

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/framework"
)

// Input is all that a profile's meaning depends on.
type Input struct {
	Profile *v1alpha1.SchedulingProfile
	// Configs holds the PluginConfigs that the profile names and that exist,
	// by name; others do no harm.
	Configs map[string]*v1alpha1.PluginConfig
	// Registry holds the plugins of this build.
	Registry framework.Registry
	// Version is Berth's own; it is part of the hash.
	Version string
	// Extenders says what extenders may do here; the zero value allows none.
	Extenders ExtenderPermissions
}

// Profile resolves a profile: to a Blueprint, or to a Rejection that holds
// every fault. Exactly one of the two is nil. Nothing that it is given is
// changed, and the Blueprint shares no memory with it.
func Profile(in Input) (*Blueprint, *Rejection) {
	spec := in.Profile.Spec.DeepCopy()
	spec.SetDefaults()
	path := field.NewPath("spec")

	var found fieldErrors
	checkEnums(spec, path, &found)
	chains := resolveChains(spec, in.Registry, path.Child("plugins"), &found)
	given := resolveArguments(spec.PluginConfig, in, path.Child("pluginConfig"), &found)
	args := effectiveArguments(chains, given, in.Registry, path.Child("pluginConfig"), &found)
	checkSettings(spec, path, &found)
	checkExports(spec.Exports, path.Child("exports"), &found)
	asked := resolveExtenders(spec.Extenders, in.Extenders, path.Child("extenders"), &found)
	ignoreManagedResources(spec.Extenders, args)
	namespaces := allowedNamespaces(spec.AllowedNamespaces, path.Child("allowedNamespaces"), &found)
	if rejection := found.rejection(); rejection != nil {
		return nil, rejection
	}

	b := &Blueprint{
		Name:                     in.Profile.Name,
		Generation:               in.Profile.Generation,
		Chains:                   chains,
		Args:                     map[string]runtime.Object{},
		ArgsFrom:                 map[string]string{},
		PercentageOfNodesToScore: spec.PercentageOfNodesToScore,
		Namespaces:               namespaces,
		Queue:                    queueSettings(spec.Queue),
		Extenders:                asked,
		Decisions:                decisionSettings(spec.Decisions),
		Configs:                  referencedConfigs(spec.PluginConfig, in.Configs),
	}
	for name, a := range args {
		b.Args[name], b.ArgsFrom[name] = a.object, a.source
	}
	b.Hash = hashBlueprint(b, in.Version)
	return b, nil
}

// Config judges a PluginConfig by itself. The hash names the plugin and its
// arguments with the defaults filled in; it is empty when there is a Rejection.
func Config(cfg *v1alpha1.PluginConfig, reg framework.Registry) (hash string, rejection *Rejection) {
	var found fieldErrors
	path := field.NewPath("spec")
	registration, ok := reg[cfg.Spec.Plugin]
	if !ok {
		found.addAccepted(v1alpha1.ReasonUnknownPlugin, path.Child("plugin"), "%s", unknownPluginMessage(cfg.Spec.Plugin, reg))
		return "", found.rejection()
	}
	object, problems := decodeArguments(registration, &cfg.Spec.Args, path.Child("args"))
	for _, p := range problems {
		found.add(v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalidArguments, p.path, p.detail)
	}
	if rejection := found.rejection(); rejection != nil {
		return "", rejection
	}
	return hashConfig(cfg.Spec.Plugin, object), nil
}

// configsNamed lists the generations of the PluginConfigs that a profile
// without faults names, by name.
func referencedConfigs(entries []v1alpha1.PluginArguments, configs map[string]*v1alpha1.PluginConfig) []ConfigGeneration {
	var named []ConfigGeneration
	for _, e := range entries {
		if e.ConfigRef != nil {
			named = append(named, ConfigGeneration{Name: e.ConfigRef.Name, Generation: configs[e.ConfigRef.Name].Generation})
		}
	}
	slices.SortFunc(named, func(a, b ConfigGeneration) int { return cmp.Compare(a.Name, b.Name) })
	return named
}
