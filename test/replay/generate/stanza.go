package generate

import (
	"math/rand/v2"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/upstreamconfig"
)

// Stanza makes up a plugins stanza and a base. A wild one makes the mistakes
// that people make: names twice, names that there are not, plugins where they
// have no say.
func Stanza(source *rand.Rand, spec *v1alpha1.SchedulingProfileSpec, wild bool) {
	s := stanza{dice: dice{source}, registry: plugins.InTree(), wild: wild}
	p := &v1alpha1.Plugins{}
	if s.chance(12) {
		spec.Base = v1alpha1.BaseNone
	}
	s.set(&p.MultiPoint, "", 40)
	for _, at := range []struct {
		set     *v1alpha1.PluginSet
		point   framework.Point
		percent int
	}{
		{&p.PreEnqueue, framework.PreEnqueue, 10},
		{&p.QueueSort, framework.QueueSort, 10},
		{&p.PreFilter, framework.PreFilter, 15},
		{&p.Filter, framework.Filter, 25},
		{&p.PostFilter, framework.PostFilter, 5},
		{&p.PreScore, framework.PreScore, 15},
		{&p.Score, framework.Score, 50},
		{&p.Reserve, framework.Reserve, 5},
		{&p.Permit, framework.Permit, 5},
		{&p.PreBind, framework.PreBind, 5},
		{&p.Bind, framework.Bind, 10},
		{&p.PostBind, framework.PostBind, 5},
	} {
		s.set(at.set, at.point, at.percent)
	}
	spec.Plugins = p
}

type stanza struct {
	dice
	registry framework.Registry
	wild     bool
}

// set fills one set, in so many percent of stanzas. The empty point is
// multiPoint.
func (s stanza) set(set *v1alpha1.PluginSet, point framework.Point, percent int) {
	if !s.chance(percent) {
		return
	}
	for _, name := range some(s.dice, s.names(point), 6) {
		enabled := v1alpha1.EnabledPlugin{Name: name}
		scores := s.registry[name].Implements(framework.Score)
		if (point == framework.Score || point == "" && scores || s.wild && s.chance(2)) && s.chance(70) {
			weight := int32(pick(s.dice, []int{1, 2, 3, 10, 100}))
			enabled.Weight = &weight
		}
		set.Enabled = append(set.Enabled, enabled)
		if s.wild && s.chance(2) {
			set.Enabled = append(set.Enabled, enabled)
		}
	}
	for _, name := range some(s.dice, s.names(point), 3) {
		set.Disabled = append(set.Disabled, v1alpha1.DisabledPlugin{Name: name})
	}
	if s.chance(15) {
		set.Disabled = append(set.Disabled, v1alpha1.DisabledPlugin{Name: v1alpha1.AllPlugins})
	}
}

// names are the plugins that may be named at a point.
func (s stanza) names(point framework.Point) []string {
	var names []string
	for _, name := range s.registry.Names() {
		if !upstreamconfig.IsUpstreamPlugin(name) {
			continue // nobody to compare it with
		}
		if point == "" || s.registry[name].Implements(point) || s.wild && s.chance(2) {
			names = append(names, name)
		}
	}
	if s.wild && s.chance(2) {
		names = append(names, "NoSuchPlugin")
	}
	return names
}
