package compile

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/framework"
)

// Input is all that the meaning of a profile depends on.
type Input struct {
	Profile *v1alpha1.SchedulingProfile
	// Configs holds the existing PluginConfigs that the profile names, by name.
	// Further entries have no effect.
	Configs map[string]*v1alpha1.PluginConfig
	// Registry holds the plugins of this build.
	Registry framework.Registry
	// Version is Berth's version, which is part of the hash.
	Version string
	// Extenders says what extenders may do in this process; the zero value allows none.
	Extenders ExtenderPermissions
}

// Profile resolves a profile to a Blueprint, or to a Rejection that holds every
// field error. Exactly one of the two is nil. Profile does not change its input, and
// the Blueprint shares no memory with it.
func Profile(in Input) (*Blueprint, *Rejection) {
	spec := in.Profile.Spec.DeepCopy()
	spec.SetDefaults()
	path := field.NewPath("spec")

	var errs fieldErrors
	checkEnums(spec, path, &errs)
	chains := resolveChains(spec, in.Registry, path.Child("plugins"), &errs)
	given := resolveArguments(spec.PluginConfig, in, path.Child("pluginConfig"), &errs)
	args := effectiveArguments(chains, given, in.Registry, path.Child("pluginConfig"), &errs)
	checkSettings(spec, path, &errs)
	checkExports(spec.Exports, path.Child("exports"), &errs)
	asked := resolveExtenders(spec.Extenders, in.Extenders, path.Child("extenders"), &errs)
	ignoreManagedResources(spec.Extenders, args)
	namespaces := allowedNamespaces(spec.AllowedNamespaces, path.Child("allowedNamespaces"), &errs)
	if rejection := errs.rejection(); rejection != nil {
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

// Config validates a PluginConfig by itself. The hash covers the plugin and its
// defaulted arguments; it is empty when there is a Rejection.
func Config(cfg *v1alpha1.PluginConfig, reg framework.Registry) (hash string, rejection *Rejection) {
	var errs fieldErrors
	path := field.NewPath("spec")
	registration, ok := reg[cfg.Spec.Plugin]
	if !ok {
		errs.addAccepted(v1alpha1.ReasonUnknownPlugin, path.Child("plugin"), "%s", unknownPluginMessage(cfg.Spec.Plugin, reg))
		return "", errs.rejection()
	}
	object, argErrs := decodeArguments(registration, &cfg.Spec.Args, path.Child("args"))
	for _, p := range argErrs {
		errs.add(v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalidArguments, p.path, p.detail)
	}
	if rejection := errs.rejection(); rejection != nil {
		return "", rejection
	}
	return hashConfig(cfg.Spec.Plugin, object), nil
}

// referencedConfigs lists the PluginConfigs that a valid profile names, with their
// generations, sorted by name.
func referencedConfigs(entries []v1alpha1.PluginArguments, configs map[string]*v1alpha1.PluginConfig) []ConfigGeneration {
	var named []ConfigGeneration
	for _, e := range entries {
		if e.ConfigRef != nil {
			cfg := configs[e.ConfigRef.Name]
			named = append(named, ConfigGeneration{Name: e.ConfigRef.Name, Generation: cfg.Generation, UID: cfg.UID})
		}
	}
	slices.SortFunc(named, func(a, b ConfigGeneration) int { return cmp.Compare(a.Name, b.Name) })
	return named
}
