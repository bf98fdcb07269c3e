package controllers

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	berthac "github.com/berthdev/berth/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// status is what the visit says of its profile, conditions included: all that
// the field manager of verdicts owns. What it leaves out is taken away, such
// as programmed when nothing runs.
func (v observation) status(resourceVersion string, conditions []*metav1ac.ConditionApplyConfiguration) runtime.ApplyConfiguration {
	status := berthac.SchedulingProfileStatus().
		WithObservedGeneration(v.profile.Generation).
		WithConditions(conditions...).
		WithResolved(objectGenerations(v.resolvedConfigs())...)
	if fault.ObservedGenerationMissing {
		status.ObservedGeneration = nil
	}
	if b := v.runningBlueprint(); b != nil {
		programmed := berthac.ProgrammedProfile().
			WithGeneration(b.Generation).
			WithHash(b.Hash).
			WithTime(metav1.NewTime(v.running.Since)).
			WithConfigs(objectGenerations(b.Configs)...).
			WithPlugins(programmedPlugins(b)...)
		if name := v.storedRevision(); name != "" {
			programmed.WithRevision(name)
		}
		status.WithProgrammed(programmed)
	}
	if v.trial != nil {
		status.WithTrial(v.trial.status())
	}
	return berthac.SchedulingProfile(v.profile.Name).WithResourceVersion(resourceVersion).WithStatus(status)
}

func objectGenerations(configs []compile.ConfigGeneration) []*berthac.ObjectGenerationApplyConfiguration {
	out := make([]*berthac.ObjectGenerationApplyConfiguration, len(configs))
	for i, c := range configs {
		out[i] = berthac.ObjectGeneration().WithName(c.Name).WithGeneration(c.Generation)
	}
	return out
}

// runningConfigs are the generations of PluginConfigs that a profile's status
// says it runs with.
func runningConfigs(p *v1alpha1.SchedulingProfile) []v1alpha1.ObjectGeneration {
	if p.Status.Programmed == nil {
		return nil
	}
	return p.Status.Programmed.Configs
}

// pluginsOf lists a Blueprint's plugins in the order in which a pod meets them
// first, each with all the points where it runs.
func programmedPlugins(b *compile.Blueprint) []*berthac.ProgrammedPluginApplyConfiguration {
	var plugins []*berthac.ProgrammedPluginApplyConfiguration
	for _, point := range framework.Points {
		for _, entry := range b.Chains[point] {
			at := slices.IndexFunc(plugins, func(p *berthac.ProgrammedPluginApplyConfiguration) bool {
				return *p.Name == entry.Name
			})
			if at < 0 {
				at = len(plugins)
				plugins = append(plugins, berthac.ProgrammedPlugin().WithName(entry.Name))
				if from, ok := b.ArgsFrom[entry.Name]; ok {
					plugins[at].WithArgs(from)
				}
			}
			plugins[at].WithPoints(extensionPointName(point))
			if entry.Weight > 0 {
				plugins[at].WithWeight(entry.Weight)
			}
		}
	}
	return plugins
}

// pointInStatus names a point as the framework's interfaces do: preFilter is
// PreFilter.
func extensionPointName(point framework.Point) v1alpha1.ExtensionPoint {
	return v1alpha1.ExtensionPoint(strings.ToUpper(string(point[:1])) + string(point[1:]))
}
