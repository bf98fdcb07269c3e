package upstreamconfig

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// chains are the Blueprint's without the plugins that kube-scheduler has not.
// Where it needs one, its own takes the place.
func (e *exporter) chains(path *field.Path) framework.Chains {
	chains, left := framework.Chains{}, map[string]bool{}
	for _, point := range framework.Points {
		for _, entry := range e.blueprint.Chains[point] {
			if IsUpstreamPlugin(entry.Name) {
				chains[point] = append(chains[point], entry)
				continue
			}
			if !left[entry.Name] {
				e.lost(path.Child(string(point)), "kube-scheduler has no plugin %q: it is left out", entry.Name)
			}
			left[entry.Name] = true
		}
	}
	for point, own := range map[framework.Point]string{framework.QueueSort: "PrioritySort", framework.Bind: "DefaultBinder"} {
		if len(chains[point]) == 0 {
			chains[point] = []framework.Entry{{Name: own}}
		}
	}
	return chains
}

// stanza is the shortest way from kube-scheduler's default plugins to chains:
// defaults that run nowhere are disabled at multiPoint, and a point that differs
// all the same says what runs there. Whoever runs what kube-scheduler runs by
// default says nothing, so that an older or newer version reads it, too.
func (e *exporter) plugins(chains framework.Chains) *configv1.Plugins {
	runs := map[string]bool{}
	for _, chain := range chains {
		for _, entry := range chain {
			runs[entry.Name] = true
		}
	}
	stanza, said := &configv1.Plugins{}, false
	var rest []framework.Entry
	var absent []string
	for _, entry := range compile.DefaultPlugins() {
		_, known := e.registry[entry.Name]
		switch {
		case runs[entry.Name], fault.DefaultsLeftOn:
			rest = append(rest, entry)
			continue
		case !known:
			absent = append(absent, entry.Name)
		}
		said = true
		stanza.MultiPoint.Disabled = append(stanza.MultiPoint.Disabled, configv1.Plugin{Name: entry.Name})
	}
	if len(absent) > 0 {
		e.note(field.NewPath("spec", "plugins"), "%s: disabled, since this Berth has no such plugin and holds the pods that need one: do not give those to this configuration", joinNames(absent))
	}
	for _, p := range pluginSetPairs(stanza, &v1alpha1.Plugins{})[1:] {
		if slices.Equal(e.multiPointChain(p.point, rest), chains[p.point]) {
			continue
		}
		said = true
		p.upstream.Disabled = []configv1.Plugin{{Name: v1alpha1.AllPlugins}}
		for _, entry := range chains[p.point] {
			p.upstream.Enabled = append(p.upstream.Enabled, pluginOf(entry))
		}
	}
	if !said {
		return nil
	}
	return stanza
}

// derived is what runs at a point of itself when these are at multiPoint.
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

// seconds is a duration in seconds; nil where it is the default.
func seconds(d time.Duration, usual int32) *int64 {
	if s := int64(d / time.Second); s != int64(usual) {
		return &s
	}
	return nil
}
