package compile

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/framework"
)

// arguments are one plugin's, decoded, and where they came from: "Default",
// "Inline" or "PluginConfig/<name>".
type arguments struct {
	object runtime.Object
	source string
}

// resolveArguments returns the arguments that a profile gives, by plugin. A
// plugin that does not run has its arguments judged all the same.
func resolveArguments(entries []v1alpha1.PluginArguments, in Input, path *field.Path, found *fieldErrors) map[string]arguments {
	given := map[string]arguments{}
	first := map[string]int{}
	for i, e := range entries {
		at := path.Index(i)
		if j, twice := first[e.Name]; twice {
			found.addAccepted(v1alpha1.ReasonInvalidArguments, at.Child("name"),
				"plugin %q is here twice: pluginConfig[%d] gives its arguments already", e.Name, j)
			continue
		}
		first[e.Name] = i
		registration, known := in.Registry[e.Name]
		if !known {
			found.addAccepted(v1alpha1.ReasonUnknownPlugin, at.Child("name"), "%s", unknownPluginMessage(e.Name, in.Registry))
			continue
		}
		switch {
		case (e.Args == nil) == (e.ConfigRef == nil):
			found.addAccepted(v1alpha1.ReasonInvalidArguments, at, "exactly one of args and configRef must be set")
		case e.Args != nil:
			object, problems := decodeArguments(registration, e.Args, at.Child("args"))
			for _, p := range problems {
				found.add(v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalidArguments, p.path, p.detail)
			}
			given[e.Name] = arguments{object: object, source: "Inline"}
		default:
			object := resolveReference(registration, e.ConfigRef.Name, in.Configs, at.Child("configRef", "name"), found)
			given[e.Name] = arguments{object: object, source: "PluginConfig/" + e.ConfigRef.Name}
		}
	}
	return given
}

// resolveReference returns the arguments that a PluginConfig holds for a plugin.
func resolveReference(registration framework.Registration, name string, configs map[string]*v1alpha1.PluginConfig, path *field.Path, found *fieldErrors) runtime.Object {
	cfg := configs[name]
	if cfg == nil {
		found.addResolvedRefs(v1alpha1.ReasonPluginConfigNotFound, path, "there is no PluginConfig %q: create it, or give args here", name)
		return nil
	}
	if cfg.Spec.Plugin != registration.Name {
		found.addResolvedRefs(v1alpha1.ReasonPluginMismatch, path,
			"PluginConfig %q is for plugin %q, not for %q", name, cfg.Spec.Plugin, registration.Name)
		return nil
	}
	object, problems := decodeArguments(registration, &cfg.Spec.Args, field.NewPath("spec", "args"))
	for _, p := range problems {
		found.addResolvedRefs(v1alpha1.ReasonPluginConfigRefused, path, "PluginConfig %q is refused: %s: %s", name, p.path, p.detail)
	}
	return object
}

// argumentsOf returns the arguments of every plugin that runs and takes some:
// those given, else the plugin's defaults.
func effectiveArguments(chains framework.Chains, given map[string]arguments, reg framework.Registry, path *field.Path, found *fieldErrors) map[string]arguments {
	of := map[string]arguments{}
	for _, point := range framework.Points {
		for _, e := range chains[point] {
			registration := reg[e.Name]
			if _, done := of[e.Name]; done || registration.NewArgs == nil {
				continue
			}
			if a, ok := given[e.Name]; ok {
				of[e.Name] = a
				continue
			}
			object, problems := defaultAndValidate(registration, newArguments(registration), path)
			for _, p := range problems {
				found.addAccepted(v1alpha1.ReasonInvalidArguments, path,
					"plugin %q does not run without arguments: %s: %s", e.Name, p.path, p.detail)
			}
			of[e.Name] = arguments{object: object, source: "Default"}
		}
	}
	return of
}
