package upstreamconfig

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/framework"
)

// chains returns the Blueprint's chains without the plugins that kube-scheduler lacks.
// Where kube-scheduler requires a plugin and none is left, it gets its default one.
func (e *exporter) chains(path *field.Path) framework.Chains {
	chains, left := framework.Chains{}, map[string]bool{}
	for point, entry := range e.blueprint.Chains.All() {
		if IsUpstreamPlugin(entry.Name) {
			chains[point] = append(chains[point], entry)
			continue
		}
		if !left[entry.Name] {
			e.lost(path.Child(string(point)), "kube-scheduler has no plugin %q: it is left out", entry.Name)
		}
		left[entry.Name] = true
	}
	for point, own := range map[framework.Point]string{framework.QueueSort: "PrioritySort", framework.Bind: "DefaultBinder"} {
		if len(chains[point]) == 0 {
			chains[point] = []framework.Entry{{Name: own}}
		}
	}
	return chains
}

// plugins returns the shortest difference between kube-scheduler's default plugins and
// chains: it disables at multiPoint the defaults that run nowhere, and lists the
// plugins of each point that still differs. It returns nil where all are the defaults,
// so that other versions of kube-scheduler can read the configuration.
func (e *exporter) plugins(chains framework.Chains) *configv1.Plugins {
	runs := map[string]bool{}
	for _, entry := range chains.All() {
		runs[entry.Name] = true
	}
	stanza, changed := &configv1.Plugins{}, false
	var rest []framework.Entry
	var absent []string
	for _, entry := range compile.DefaultPlugins() {
		registration, known := e.registry[entry.Name]
		switch {
		case chains.SchedulesGroups() && registration.Implements(framework.PodGroupPostFilter) && !has(chains[framework.PodGroupPostFilter], entry):
			// At multiPoint it would preempt for groups, too.
		case runs[entry.Name]:
			rest = append(rest, entry)
			continue
		case !known:
			absent = append(absent, entry.Name)
		}
		changed = true
		stanza.MultiPoint.Disabled = append(stanza.MultiPoint.Disabled, configv1.Plugin{Name: entry.Name})
	}
	if len(absent) > 0 {
		e.note(field.NewPath("spec", "plugins"), "%s: disabled, since this Berth has no such plugin and holds the pods that need one: do not give those to this configuration", joinNames(absent))
	}
	for _, entry := range chains[framework.PlacementFeasible] {
		if runsAtAPoint := slices.ContainsFunc(framework.Points, func(p framework.Point) bool { return has(chains[p], entry) }); !runsAtAPoint {
			changed = true
			rest = append(rest, entry)
			stanza.MultiPoint.Enabled = append(stanza.MultiPoint.Enabled, pluginOf(entry))
		}
	}
	for _, p := range pluginSetPairs(stanza, &v1alpha1.Plugins{})[1:] {
		if slices.Equal(e.multiPointChain(p.point, rest), chains[p.point]) {
			continue
		}
		changed = true
		p.upstream.Disabled = []configv1.Plugin{{Name: v1alpha1.AllPlugins}}
		for _, entry := range chains[p.point] {
			p.upstream.Enabled = append(p.upstream.Enabled, pluginOf(entry))
		}
	}
	if !changed {
		return nil
	}
	return stanza
}

// has reports whether a chain has the plugin of entry.
func has(chain []framework.Entry, entry framework.Entry) bool {
	return slices.ContainsFunc(chain, func(e framework.Entry) bool { return e.Name == entry.Name })
}

// multiPointChain returns the chain that a point has when multi is enabled at
// multiPoint.
func (e *exporter) multiPointChain(point framework.Point, multi []framework.Entry) []framework.Entry {
	var chain []framework.Entry
	for _, entry := range multi {
		if !e.registry[entry.Name].Implements(point) {
			continue
		}
		if point == framework.Score {
			entry.Weight = max(entry.Weight, 1)
		} else {
			entry.Weight = 0
		}
		chain = append(chain, entry)
	}
	return chain
}

func pluginOf(entry framework.Entry) configv1.Plugin {
	p := configv1.Plugin{Name: entry.Name}
	if entry.Weight > 0 {
		p.Weight = &entry.Weight
	}
	return p
}

// nonDefaultSeconds returns a duration in seconds; nil where it equals the default.
func nonDefaultSeconds(d time.Duration, defaultSeconds int32) *int64 {
	if s := int64(d / time.Second); s != int64(defaultSeconds) {
		return &s
	}
	return nil
}
