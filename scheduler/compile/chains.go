package compile

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/framework"
)

// The chains are resolved in the two steps of kube-scheduler: the user's multiPoint
// is merged into the default one (mergePluginSet in its apis/config/v1), then the
// result is expanded to the extension points, where each point's own set overrides
// it (expandMultiPointPlugins in its framework/runtime). One combined rule would
// differ from the two steps in corner cases, so the steps are kept apart.

// resolveChains returns the plugins that run at each extension point, in order.
// Invalid entries are reported in errs and run nowhere.
func resolveChains(spec *v1alpha1.SchedulingProfileSpec, reg framework.Registry, path *field.Path, errs *fieldErrors) framework.Chains {
	plugins := v1alpha1.Plugins{}
	if spec.Plugins != nil {
		plugins = *spec.Plugins
	}
	multi := mergeDefaults(spec.Base, plugins.MultiPoint, reg)
	chains := framework.Chains{}
	for _, set := range pluginSets(&plugins) {
		checkPluginSet(set, reg, path.Child(set.name), errs)
		if set.point == "" {
			continue
		}
		if chain := expand(set.point, multi, set.PluginSet, reg); len(chain) > 0 {
			chains[set.point] = chain
		}
	}
	addGroupChains(chains, multi, reg)
	checkChains(chains, path, errs)
	return chains
}

// addGroupChains adds the chains of the extension points of groups, where a plugin schedules
// groups. As in kube-scheduler, every plugin that the profile builds says whether enough pods
// of a group fit, also one that multiPoint enables and every extension point disables; but only
// those of multiPoint preempt for a group.
func addGroupChains(chains framework.Chains, multi []framework.Entry, reg framework.Registry) {
	built := slices.Clone(multi)
	for _, e := range chains.All() {
		built = append(built, e)
	}
	of := func(point framework.Point, entries []framework.Entry) (chain []framework.Entry) {
		for _, e := range entries {
			if reg[e.Name].Implements(point) && indexOf(chain, e.Name) < 0 {
				chain = append(chain, framework.Entry{Name: e.Name})
			}
		}
		return chain
	}
	feasible := of(framework.PlacementFeasible, built)
	if feasible == nil {
		return
	}
	chains[framework.PlacementFeasible] = feasible
	if preempting := of(framework.PodGroupPostFilter, multi); preempting != nil {
		chains[framework.PodGroupPostFilter] = preempting
	}
}

// SchedulesGroups reports whether a profile with this spec schedules the pods of a group
// together. It does not check the spec.
func SchedulesGroups(spec *v1alpha1.SchedulingProfileSpec, reg framework.Registry) bool {
	return resolveChains(spec, reg, field.NewPath("spec", "plugins"), &fieldErrors{}).SchedulesGroups()
}

// pluginSet is the user's set for one extension point. For multiPoint the point is
// empty.
type pluginSet struct {
	v1alpha1.PluginSet
	name  string
	point framework.Point
}

// pluginSets lists a profile's sets: multiPoint, then the extension points in the
// order in which the framework runs them.
func pluginSets(p *v1alpha1.Plugins) []pluginSet {
	at := func(point framework.Point, set v1alpha1.PluginSet) pluginSet {
		return pluginSet{PluginSet: set, name: string(point), point: point}
	}
	return []pluginSet{
		{PluginSet: p.MultiPoint, name: "multiPoint"},
		at(framework.PreEnqueue, p.PreEnqueue),
		at(framework.QueueSort, p.QueueSort),
		at(framework.PreFilter, p.PreFilter),
		at(framework.Filter, p.Filter),
		at(framework.PostFilter, p.PostFilter),
		at(framework.PreScore, p.PreScore),
		at(framework.Score, p.Score),
		at(framework.Reserve, p.Reserve),
		at(framework.Permit, p.Permit),
		at(framework.PreBind, p.PreBind),
		at(framework.Bind, p.Bind),
		at(framework.PostBind, p.PostBind),
	}
}

// mergeDefaults merges the user's multiPoint set into the default plugins. A default
// plugin that the user enables keeps its place and gets the user's weight. One that
// the user disables and enables moves behind the defaults, which is how a profile
// reorders plugins.
func mergeDefaults(base v1alpha1.ProfileBase, own v1alpha1.PluginSet, reg framework.Registry) []framework.Entry {
	disabled := namesOf(own.Disabled)
	all := disabled[v1alpha1.AllPlugins] || base == v1alpha1.BaseNone
	enabled := entriesOf(own.Enabled)

	var merged []framework.Entry
	replaced := map[string]bool{}
	for _, e := range defaultPlugins {
		if all || disabled[e.Name] || !registered(reg, e) {
			continue
		}
		if i := indexOf(enabled, e.Name); i >= 0 {
			e = enabled[i]
			replaced[e.Name] = true
		}
		merged = append(merged, e)
	}
	for _, e := range enabled {
		if !replaced[e.Name] && registered(reg, e) {
			merged = append(merged, e)
		}
	}
	return merged
}

// expand returns the chain of one extension point: first the plugins of multiPoint
// that the point's own set enables again, in the order of that set; then the other
// plugins of multiPoint; then the other plugins of the set. A plugin that the set
// both disables and enables counts as one of the last group, so it moves to the end.
func expand(point framework.Point, multi []framework.Entry, own v1alpha1.PluginSet, reg framework.Registry) []framework.Entry {
	runs := func(e framework.Entry) bool { return registered(reg, e) && reg[e.Name].Implements(point) }
	enabled := slices.DeleteFunc(entriesOf(own.Enabled), func(e framework.Entry) bool { return !runs(e) })
	disabled := namesOf(own.Disabled)

	var takenOver, fromMulti, added []framework.Entry
	inherited := map[string]bool{}
	if !disabled[v1alpha1.AllPlugins] {
		for _, e := range multi {
			if !runs(e) || disabled[e.Name] {
				continue
			}
			inherited[e.Name] = true
			if indexOf(enabled, e.Name) < 0 {
				fromMulti = append(fromMulti, e)
			}
		}
	}
	for _, e := range enabled {
		if inherited[e.Name] {
			takenOver = append(takenOver, e)
		} else {
			added = append(added, e)
		}
	}
	return setWeights(point, slices.Concat(takenOver, fromMulti, added))
}

// setWeights gives each entry its weight at score, and none at other points. A weight
// below 1 counts as 1 here; checkEnabled reports it.
func setWeights(point framework.Point, chain []framework.Entry) []framework.Entry {
	for i := range chain {
		switch {
		case point != framework.Score:
			chain[i].Weight = 0
		case chain[i].Weight < 1:
			chain[i].Weight = 1
		}
	}
	return chain
}

// entriesOf returns the user's enabled plugins once each. Of duplicates, which
// checkPluginSet reports, the first counts.
func entriesOf(enabled []v1alpha1.EnabledPlugin) []framework.Entry {
	var entries []framework.Entry
	for _, p := range enabled {
		if indexOf(entries, p.Name) >= 0 {
			continue
		}
		e := framework.Entry{Name: p.Name}
		if p.Weight != nil {
			e.Weight = *p.Weight
		}
		entries = append(entries, e)
	}
	return entries
}

func namesOf(disabled []v1alpha1.DisabledPlugin) map[string]bool {
	names := map[string]bool{}
	for _, p := range disabled {
		names[p.Name] = true
	}
	return names
}

func indexOf(entries []framework.Entry, name string) int {
	return slices.IndexFunc(entries, func(e framework.Entry) bool { return e.Name == name })
}

func registered(reg framework.Registry, e framework.Entry) bool {
	_, ok := reg[e.Name]
	return ok
}

// defaultPlugins are the plugins that kube-scheduler 1.37 enables at multiPoint, in
// its order and with its weights (k8s.io/kubernetes/pkg/scheduler/apis/config/v1,
// feature gates at their defaults). Plugins run in this order, so it decides which
// plugin rejects a pod first. A weight only counts where the plugin scores.
var defaultPlugins = []framework.Entry{
	{Name: "SchedulingGates"},
	{Name: "PrioritySort"},
	{Name: "NodeName"},
	{Name: "NodeUnschedulable"},
	{Name: "TaintToleration", Weight: 3}, // avoiding tainted nodes outranks every preference
	{Name: "NodeAffinity", Weight: 2},
	{Name: "NodePorts"},
	{Name: "NodeResourcesFit", Weight: 1},
	{Name: "VolumeRestrictions"},
	{Name: "NodeVolumeLimits"},
	{Name: "VolumeBinding"},
	{Name: "VolumeZone"},
	{Name: "PodTopologySpread", Weight: 2},
	{Name: "InterPodAffinity", Weight: 2},
	{Name: "DynamicResources", Weight: 2}, // before DefaultPreemption: deallocating an unused claim evicts no pod
	{Name: "DefaultPreemption"},
	{Name: "NodeResourcesBalancedAllocation", Weight: 1},
	{Name: "ImageLocality", Weight: 1},
	{Name: "DefaultBinder"},
	{Name: "NodeDeclaredFeatures"},
}

// DefaultPlugins returns the plugins that kube-scheduler enables by default, in order,
// whether or not this build has them.
func DefaultPlugins() []framework.Entry { return slices.Clone(defaultPlugins) }

// IsDefault reports whether kube-scheduler enables a plugin of this name by default,
// whether or not this build has it.
func IsDefault(name string) bool {
	return slices.ContainsFunc(defaultPlugins, func(e framework.Entry) bool { return e.Name == name })
}
