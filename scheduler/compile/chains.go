package compile

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/framework"
)

// The effective chains come in the two steps that kube-scheduler takes: the
// user's multiPoint is merged into the default one (mergePluginSet in its
// apis/config/v1), then the result is spread over the extension points, where
// each point's own set overrides it (expandMultiPointPlugins in its
// framework/runtime). The two are kept apart because their composition has
// corners that a single rule would round off.

// resolveChains returns the plugins that run at each extension point, in order.
// Entries that are faults run nowhere.
func resolveChains(spec *v1alpha1.SchedulingProfileSpec, reg framework.Registry, path *field.Path, found *fieldErrors) framework.Chains {
	plugins := v1alpha1.Plugins{}
	if spec.Plugins != nil {
		plugins = *spec.Plugins
	}
	multi := mergeDefaults(spec.Base, plugins.MultiPoint, reg)
	chains := framework.Chains{}
	for _, set := range pluginSets(&plugins) {
		checkPluginSet(set, reg, path.Child(set.name), found)
		if set.point == "" {
			continue
		}
		if chain := expand(set.point, multi, set.PluginSet, reg); len(chain) > 0 {
			chains[set.point] = chain
		}
	}
	checkChains(chains, path, found)
	return chains
}

// pluginSet is a user's changes at one extension point, or at multiPoint, whose
// point is empty.
type pluginSet struct {
	v1alpha1.PluginSet
	name  string
	point framework.Point
}

// pluginSets lists a profile's sets: multiPoint, then each point in the order
// in which a pod meets them.
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

// mergeDefaults merges the user's multiPoint set into the default plugins. A
// default that the user enables keeps its place and takes the user's weight;
// one that is disabled as well as enabled loses its place, which is how a
// profile reorders.
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

// expand returns the chain of one point: first the plugins that the point's own
// set takes over from multiPoint, in the set's order; then the rest of
// multiPoint; then the rest of the set. A plugin that the set disables is not
// taken over, so disabling and enabling it moves it to the end.
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

// weigh gives each entry its weight where the point scores, and none elsewhere.
// A weight below one is reported elsewhere and counts as one here.
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

// entriesOf returns a user's enabled plugins once each: the first of a double
// entry stands, and is reported elsewhere.
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
