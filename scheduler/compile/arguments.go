package compile

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/framework"
)

// arguments are the decoded arguments of one plugin and their source: "Default",
// "Inline" or "PluginConfig/<name>".
type arguments struct {
	object runtime.Object
	source string
}

// resolveArguments returns the arguments that a profile gives, by plugin. It also
// validates the arguments of plugins that do not run.
func resolveArguments(entries []v1alpha1.PluginArguments, in Input, path *field.Path, errs *fieldErrors) map[string]arguments {
	given := map[string]arguments{}
	first := map[string]int{}
	for i, e := range entries {
		at := path.Index(i)
		if j, twice := first[e.Name]; twice {
			errs.addAccepted(v1alpha1.ReasonInvalidArguments, at.Child("name"),
				"Duplicate value: %q: pluginConfig[%d] already gives its arguments", e.Name, j)
			continue
		}
		first[e.Name] = i
		registration, known := in.Registry[e.Name]
		if !known {
			errs.addAccepted(v1alpha1.ReasonUnknownPlugin, at.Child("name"), "%s", unknownPluginMessage(e.Name, in.Registry))
			continue
		}
		switch {
		case (e.Args == nil) == (e.ConfigRef == nil):
			errs.addAccepted(v1alpha1.ReasonInvalidArguments, at, "exactly one of args and configRef must be set")
		case e.Args != nil:
			object, argErrs := decodeArguments(registration, e.Args, at.Child("args"))
			for _, p := range argErrs {
				errs.add(v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalidArguments, p.path, p.detail)
			}
			given[e.Name] = arguments{object: object, source: "Inline"}
		default:
			object := resolveReference(registration, e.ConfigRef.Name, in.Configs, at.Child("configRef", "name"), errs)
			given[e.Name] = arguments{object: object, source: "PluginConfig/" + e.ConfigRef.Name}
		}
	}
	return given
}

// resolveReference returns the arguments of a plugin from the PluginConfig called
// name; nil, with an error in errs, where that one is missing or invalid.
func resolveReference(registration framework.Registration, name string, configs map[string]*v1alpha1.PluginConfig, path *field.Path, errs *fieldErrors) runtime.Object {
	cfg := configs[name]
	if cfg == nil {
		errs.addResolvedRefs(v1alpha1.ReasonPluginConfigNotFound, path, "PluginConfig %q not found: create it, or set args instead", name)
		return nil
	}
	if cfg.Spec.Plugin != registration.Name {
		errs.addResolvedRefs(v1alpha1.ReasonPluginMismatch, path,
			"PluginConfig %q is for plugin %q, not for %q", name, cfg.Spec.Plugin, registration.Name)
		return nil
	}
	object, argErrs := decodeArguments(registration, &cfg.Spec.Args, field.NewPath("spec", "args"))
	for _, p := range argErrs {
		errs.addResolvedRefs(v1alpha1.ReasonPluginConfigRefused, path, "PluginConfig %q is invalid: %s: %s", name, p.path, p.detail)
	}
	return object
}

// effectiveArguments returns the arguments of every plugin in chains that takes
// some: those that the profile gives, else the plugin's defaults.
func effectiveArguments(chains framework.Chains, given map[string]arguments, reg framework.Registry, path *field.Path, errs *fieldErrors) map[string]arguments {
	of := map[string]arguments{}
	for _, e := range chains.All() {
		registration := reg[e.Name]
		if _, done := of[e.Name]; done || registration.NewArgs == nil {
			continue
		}
		if a, ok := given[e.Name]; ok {
			of[e.Name] = a
			continue
		}
		object, argErrs := defaultAndValidate(registration, newArguments(registration), path)
		for _, p := range argErrs {
			errs.addAccepted(v1alpha1.ReasonInvalidArguments, path,
				"plugin %q does not run without arguments: %s: %s", e.Name, p.path, p.detail)
		}
		of[e.Name] = arguments{object: object, source: "Default"}
	}
	return of
}
