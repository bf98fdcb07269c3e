package generate

import (
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/test/replay/run"
)

// profile makes up a profile that compiles; every third is the default one
// but for the sampling.
func (g *Generator) profile() run.Config {
	return compiling(func(config run.Config) {
		spec := &config.Profile.Spec
		spec.PercentageOfNodesToScore = pick(g.dice, []int32{0, 0, 7, 30, 100})
		if g.chance(67) {
			g.arguments(config, "")
			if g.chance(60) {
				Stanza(g.dice.Rand, spec, false)
			}
		}
	})
}

// profileOf makes up a profile that one plugin has for itself, half the time
// with the arguments that args makes up, if it is not nil.
func (g *Generator) profileOf(plugin string, args func(*Generator) any) run.Config {
	return compiling(func(config run.Config) {
		config.Profile.Spec.Base = v1alpha1.BaseNone
		config.Profile.Spec.Plugins = &v1alpha1.Plugins{MultiPoint: v1alpha1.PluginSet{
			Enabled: []v1alpha1.EnabledPlugin{{Name: plugin}, {Name: "PrioritySort"}, {Name: "DefaultBinder"}},
		}}
		if args != nil && g.chance(50) {
			g.give(config, plugin, args(g))
		} else {
			g.arguments(config, plugin)
		}
	})
}

// compiling returns the first profile that fill fills so that it compiles.
func compiling(fill func(run.Config)) run.Config {
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

// arguments gives some plugins arguments, or only the one named, in the profile
// or beside it.
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
			weight := int32(pick(g.dice, []int{0, 1, 10, 100}))
			return configv1.InterPodAffinityArgs{HardPodAffinityWeight: &weight, IgnorePreferredTermsOfExistingPods: g.chance(30)}
		}},
	} {
		if only != "" && only != made.plugin || !g.chance(made.percent) && (only == "" || !g.chance(70)) {
			continue
		}
		g.give(config, made.plugin, made.args())
	}
}

// give gives a plugin its arguments.
func (g *Generator) give(config run.Config, plugin string, args any) {
	text, err := json.Marshal(args)
	if err != nil {
		panic(fmt.Sprintf("generate: arguments of %s: %v", plugin, err)) // a slip in this file
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
		args.IgnoredResources = []string{string(pick(g.dice, extended[:3]))}
	}
	if g.chance(20) {
		args.IgnoredResourceGroups = []string{pick(g.dice, []string{"example.com", "other.org"})}
	}
	if g.chance(85) {
		strategy := &configv1.ScoringStrategy{
			Type: pick(g.dice, []configv1.ScoringStrategyType{
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

// resources are scored, with weights where the plugin takes them.
func (g *Generator) resources(weights bool) []configv1.ResourceSpec {
	names := append([]v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage}, extended...)
	var specs []configv1.ResourceSpec
	for _, name := range some(g.dice, names, 4) {
		spec := configv1.ResourceSpec{Name: string(name), Weight: 1}
		if weights {
			spec.Weight = int64(pick(g.dice, []int{1, 1, 2, 5, 100}))
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
			c.WhenUnsatisfiable = pick(g.dice, []v1.UnsatisfiableConstraintAction{v1.DoNotSchedule, v1.DoNotSchedule, v1.ScheduleAnyway})
			args.DefaultConstraints = append(args.DefaultConstraints, c)
		}
	}
	return args
}

// labelTerm is a term that names no node, since there is none yet.
func (g *Generator) labelTerm() v1.NodeSelectorTerm {
	for {
		term := g.term()
		if len(term.MatchExpressions) > 0 {
			return term
		}
	}
}
