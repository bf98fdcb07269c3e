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
	"github.com/berthdev/berth/scheduler/framework"
)

// status returns the status to apply, conditions included: all fields that the field
// manager of conditions owns. Server-side apply removes the fields that it leaves out,
// such as programmed when nothing runs.
func (v observation) status(resourceVersion string, conditions []*metav1ac.ConditionApplyConfiguration) runtime.ApplyConfiguration {
	status := berthac.SchedulingProfileStatus().
		WithObservedGeneration(v.profile.Generation).
		WithConditions(conditions...).
		WithResolved(objectGenerations(v.resolvedConfigs())...)
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
		status.WithTrial(trialStatus(v.trial))
	}
	return berthac.SchedulingProfile(v.profile.Name).WithResourceVersion(resourceVersion).WithStatus(status)
}

func objectGenerations(configs []compile.ConfigGeneration) []*berthac.ObjectGenerationApplyConfiguration {
	out := make([]*berthac.ObjectGenerationApplyConfiguration, len(configs))
	for i, c := range configs {
		out[i] = berthac.ObjectGeneration().WithName(c.Name).WithGeneration(c.Generation)
		if c.UID != "" {
			out[i].WithUID(c.UID)
		}
	}
	return out
}

// runningConfigs returns the generations of the PluginConfigs that a profile runs, by
// its status.
func runningConfigs(p *v1alpha1.SchedulingProfile) []v1alpha1.ObjectGeneration {
	if p.Status.Programmed == nil {
		return nil
	}
	return p.Status.Programmed.Configs
}

// programmedPlugins lists a Blueprint's plugins in the order in which a scheduling
// attempt calls them first, each with all its extension points.
func programmedPlugins(b *compile.Blueprint) []*berthac.ProgrammedPluginApplyConfiguration {
	var plugins []*berthac.ProgrammedPluginApplyConfiguration
	for point, entry := range b.Chains.All() {
		i := slices.IndexFunc(plugins, func(p *berthac.ProgrammedPluginApplyConfiguration) bool {
			return *p.Name == entry.Name
		})
		if i < 0 {
			i = len(plugins)
			plugins = append(plugins, berthac.ProgrammedPlugin().WithName(entry.Name))
			if from, ok := b.ArgsFrom[entry.Name]; ok {
				plugins[i].WithArgs(from)
			}
		}
		plugins[i].WithPoints(extensionPointName(point))
		if entry.Weight > 0 {
			plugins[i].WithWeight(entry.Weight)
		}
	}
	return plugins
}

// extensionPointName returns the name of an extension point as the framework's
// interfaces have it: PreFilter for preFilter.
func extensionPointName(point framework.Point) v1alpha1.ExtensionPoint {
	return v1alpha1.ExtensionPoint(strings.ToUpper(string(point[:1])) + string(point[1:]))
}
