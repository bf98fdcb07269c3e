package generate

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/upstreamconfig"
	"github.com/berthdev/berth/test/replay/run"
)

// profile returns a profile that compiles; every third is the default one but for
// percentageOfNodesToScore.
func (g *Generator) profile() run.Config {
	return firstCompiling(func(config run.Config) {
		spec := &config.Profile.Spec
		spec.PercentageOfNodesToScore = pick(g.random, []int32{0, 0, 7, 30, 100})
		if g.chance(67) {
			g.arguments(config, "")
			if g.chance(60) {
				Stanza(g.random.Rand, spec, false)
			}
		}
	})
}

// profileOf returns a profile with one plugin alone, half the time with the arguments that
// args returns, if it is not nil.
func (g *Generator) profileOf(plugin string, args func(*Generator) any) run.Config {
	return firstCompiling(func(config run.Config) {
		config.Profile.Spec.Base = v1alpha1.BaseNone
		config.Profile.Spec.Plugins = &v1alpha1.Plugins{MultiPoint: v1alpha1.PluginSet{
			Enabled: []v1alpha1.EnabledPlugin{{Name: plugin}, {Name: "PrioritySort"}, {Name: "DefaultBinder"}},
		}}
		if args != nil && g.chance(50) {
			g.setArgs(config, plugin, args(g))
		} else {
			g.arguments(config, plugin)
		}
	})
}

// firstCompiling calls fill until the profile compiles.
func firstCompiling(fill func(run.Config)) run.Config {
	for {
		profile := &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: "generated"}}
		profile.APIVersion, profile.Kind = v1alpha1.GroupVersion.String(), "SchedulingProfile"
		config := run.Config{Profile: profile, Configs: map[string]*v1alpha1.PluginConfig{}}
		fill(config)
		if _, rejection := compile.Profile(compile.Input{Profile: profile, Configs: config.Configs, Registry: plugins.InTree()}); rejection == nil {
			return config
		}
	}
}

// arguments gives some plugins arguments, or only the named one, in the profile or in a
// PluginConfig.
func (g *Generator) arguments(config run.Config, only string) {
	for _, made := range []struct {
		percent int
		plugin  string
		args    func() any
	}{
		{70, "NodeResourcesFit", func() any { return g.fitArgs() }},
		{40, "NodeResourcesBalancedAllocation", func() any {
			return configv1.NodeResourcesBalancedAllocationArgs{Resources: g.resources(false)}
		}},
		{20, "NodeAffinity", func() any { return g.affinityArgs() }},
		{45, "PodTopologySpread", func() any { return g.spreadArgs() }},
		{30, "InterPodAffinity", func() any {
			weight := int32(pick(g.random, []int{0, 1, 10, 100}))
			return configv1.InterPodAffinityArgs{HardPodAffinityWeight: &weight, IgnorePreferredTermsOfExistingPods: g.chance(30)}
		}},
	} {
		if only != "" && only != made.plugin || !g.chance(made.percent) && (only == "" || !g.chance(70)) {
			continue
		}
		g.setArgs(config, made.plugin, made.args())
	}
}

// setArgs sets the arguments of a plugin.
func (g *Generator) setArgs(config run.Config, plugin string, args any) {
	text, err := json.Marshal(args)
	if err != nil {
		panic(fmt.Sprintf("generate: arguments of %s: %v", plugin, err)) // a mistake in this file
	}
	given := v1alpha1.PluginArguments{Name: plugin}
	if g.chance(30) {
		named := &v1alpha1.PluginConfig{ObjectMeta: metav1.ObjectMeta{Name: "for-" + plugin}}
		named.APIVersion, named.Kind = v1alpha1.GroupVersion.String(), "PluginConfig"
		named.Spec = v1alpha1.PluginConfigSpec{Plugin: plugin, Args: runtime.RawExtension{Raw: text}}
		config.Configs[named.Name] = named
		given.ConfigRef = &v1alpha1.PluginConfigReference{Name: named.Name}
	} else {
		given.Args = &runtime.RawExtension{Raw: text}
	}
	config.Profile.Spec.PluginConfig = append(config.Profile.Spec.PluginConfig, given)
}

func (g *Generator) fitArgs() configv1.NodeResourcesFitArgs {
	args := configv1.NodeResourcesFitArgs{}
	if g.chance(20) {
		args.IgnoredResources = []string{string(pick(g.random, extended[:3]))}
	}
	if g.chance(20) {
		args.IgnoredResourceGroups = []string{pick(g.random, []string{"example.com", "other.org"})}
	}
	if g.chance(85) {
		strategy := &configv1.ScoringStrategy{
			Type: pick(g.random, []configv1.ScoringStrategyType{
				configv1.LeastAllocated, configv1.MostAllocated, configv1.RequestedToCapacityRatio,
			}),
			Resources: g.resources(true),
		}
		if strategy.Type == configv1.RequestedToCapacityRatio {
			strategy.RequestedToCapacityRatio = &configv1.RequestedToCapacityRatioParam{Shape: g.shape()}
		}
		args.ScoringStrategy = strategy
	}
	return args
}

// resources returns the scored resources, with weights where the plugin has them.
func (g *Generator) resources(weights bool) []configv1.ResourceSpec {
	names := append([]v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage}, extended...)
	var specs []configv1.ResourceSpec
	for _, name := range some(g.random, names, 4) {
		spec := configv1.ResourceSpec{Name: string(name), Weight: 1}
		if weights {
			spec.Weight = int64(pick(g.random, []int{1, 1, 2, 5, 100}))
		}
		specs = append(specs, spec)
	}
	return specs
}

func (g *Generator) shape() []configv1.UtilizationShapePoint {
	var shape []configv1.UtilizationShapePoint
	for at := g.between(0, 60); at <= 100; at += g.between(1, 70) {
		shape = append(shape, configv1.UtilizationShapePoint{Utilization: int32(at), Score: int32(g.between(0, 10))})
	}
	return shape
}

func (g *Generator) affinityArgs() configv1.NodeAffinityArgs {
	added := &v1.NodeAffinity{}
	if g.chance(30) {
		added.RequiredDuringSchedulingIgnoredDuringExecution = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{g.labelTerm(), g.labelTerm()}}
	}
	added.PreferredDuringSchedulingIgnoredDuringExecution = []v1.PreferredSchedulingTerm{
		{Weight: int32(g.between(1, 100)), Preference: g.labelTerm()},
	}
	return configv1.NodeAffinityArgs{AddedAffinity: added}
}

func (g *Generator) spreadArgs() configv1.PodTopologySpreadArgs {
	args := configv1.PodTopologySpreadArgs{DefaultingType: configv1.SystemDefaulting}
	if g.chance(70) {
		args.DefaultingType = configv1.ListDefaulting
		for range g.IntN(3) {
			c := g.constraint()
			c.WhenUnsatisfiable = pick(g.random, []v1.UnsatisfiableConstraintAction{v1.DoNotSchedule, v1.DoNotSchedule, v1.ScheduleAnyway})
			args.DefaultConstraints = append(args.DefaultConstraints, c)
		}
	}
	return args
}

// labelTerm is a term without matchFields, since there is no node yet.
func (g *Generator) labelTerm() v1.NodeSelectorTerm {
	for {
		term := g.term()
		if len(term.MatchExpressions) > 0 {
			return term
		}
	}
}

// Stanza generates the base and the plugins of a profile. With wild it makes mistakes that
// users make: names twice, names that do not exist, plugins at points that they do not
// implement.
func Stanza(source *rand.Rand, spec *v1alpha1.SchedulingProfileSpec, wild bool) {
	s := stanza{random: random{source}, registry: plugins.InTree(), wild: wild}
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
	random
	registry framework.Registry
	wild     bool
}

// set fills one set, in this percentage of stanzas. The empty point is multiPoint.
func (s stanza) set(set *v1alpha1.PluginSet, point framework.Point, percent int) {
	if !s.chance(percent) {
		return
	}
	for _, name := range some(s.random, s.names(point), 6) {
		enabled := v1alpha1.EnabledPlugin{Name: name}
		scores := s.registry[name].Implements(framework.Score)
		if (point == framework.Score || point == "" && scores || s.wild && s.chance(2)) && s.chance(70) {
			weight := int32(pick(s.random, []int{1, 2, 3, 10, 100}))
			enabled.Weight = &weight
		}
		set.Enabled = append(set.Enabled, enabled)
		if s.wild && s.chance(2) {
			set.Enabled = append(set.Enabled, enabled)
		}
	}
	for _, name := range some(s.random, s.names(point), 3) {
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
			continue // kube-scheduler does not have it
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
