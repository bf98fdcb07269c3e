package compile

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berthdev/berth/api/v1alpha1"
)

// SelfContained returns a profile as one JSON object that depends on no other object:
// with defaults, with inlined arguments, and with no metadata but the name. kubectl
// apply of that object restores the profile, whatever was changed since.
//
// For that, it holds every list, even an empty one: kubectl's three-way merge only
// removes what an earlier apply had set, and would keep a plugin that `kubectl edit`
// added. The error names a PluginConfig that is missing.
func SelfContained(p *v1alpha1.SchedulingProfile, configs map[string]*v1alpha1.PluginConfig) ([]byte, error) {
	spec := p.Spec.DeepCopy()
	spec.SetDefaults()
	for i := range spec.PluginConfig {
		entry := &spec.PluginConfig[i]
		if entry.ConfigRef == nil {
			continue
		}
		cfg := configs[entry.ConfigRef.Name]
		if cfg == nil {
			return nil, fmt.Errorf("there is no PluginConfig %q", entry.ConfigRef.Name)
		}
		entry.Args, entry.ConfigRef = cfg.Spec.Args.DeepCopy(), nil
	}
	plain, err := runtime.DefaultUnstructuredConverter.ToUnstructured(spec)
	if err != nil {
		return nil, err
	}
	plain["percentageOfNodesToScore"] = int64(spec.PercentageOfNodesToScore)
	if namespaces := ensureObject(plain, "allowedNamespaces"); spec.AllowedNamespaces.Selector == nil {
		namespaces["selector"] = nil // an empty list would be a selector
	}
	if exports := ensureObject(plain, "exports"); spec.Exports.Autoscaler == nil {
		exports["autoscaler"] = nil
	}
	ensureList(plain, "pluginConfig")
	ensureList(plain, "extenders")
	plugins := ensureObject(plain, "plugins")
	for _, set := range pluginSets(&v1alpha1.Plugins{}) {
		at := ensureObject(plugins, set.name)
		ensureList(at, "enabled")
		ensureList(at, "disabled")
	}
	return json.Marshal(map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "SchedulingProfile",
		"metadata": map[string]any{"name": p.Name}, "spec": plain,
	})
}

// ensureObject returns the object in[name], which it creates if it is missing.
func ensureObject(in map[string]any, name string) map[string]any {
	if _, there := in[name]; !there {
		in[name] = map[string]any{}
	}
	return in[name].(map[string]any)
}

// ensureList creates an empty list in[name] if it is missing.
func ensureList(in map[string]any, name string) {
	if _, there := in[name]; !there {
		in[name] = []any{}
	}
}
