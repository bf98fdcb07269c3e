package compile

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berthdev/berth/api/v1alpha1"
)

// Whole returns a profile as one JSON object that needs nothing else: defaults
// filled in, arguments inline, nothing of its metadata but the name. Applied
// with kubectl it makes the profile what it was, whoever changed it since.
//
// So every list is there, even an empty one: kubectl's three-way merge takes
// away only what an earlier apply had put there, and would leave a plugin that
// `kubectl edit` added. The error names a PluginConfig that is missing.
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
		namespaces["selector"] = nil // a list of none would be a selector
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

// object returns the object under name, made if need be.
func ensureObject(in map[string]any, name string) map[string]any {
	if _, there := in[name]; !there {
		in[name] = map[string]any{}
	}
	return in[name].(map[string]any)
}

// list makes sure that there is a list under name.
func ensureList(in map[string]any, name string) {
	if _, there := in[name]; !there {
		in[name] = []any{}
	}
}
