package upstream

import (
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	internal "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	upstreamplugins "k8s.io/kubernetes/pkg/scheduler/framework/plugins"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/test/replay/run"
)

// missing are the names of the plugins that kube-scheduler has and Berth has not: they are
// disabled in both.
func missing() []string {
	here := plugins.InTree()
	var names []string
	for name := range upstreamplugins.NewInTreeRegistry() {
		if _, ok := here[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Profile converts a SchedulingProfile to kube-scheduler's internal profile: through a
// KubeSchedulerConfiguration v1 and kube-scheduler's decoder, defaults and validation.
func Profile(config run.Config) (*internal.KubeSchedulerProfile, error) {
	profile, err := V1Profile(config)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(&configv1.KubeSchedulerConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: configv1.SchemeGroupVersion.String(), Kind: "KubeSchedulerConfiguration"},
		Profiles: []configv1.KubeSchedulerProfile{*profile},
	})
	if err != nil {
		return nil, err
	}
	read, err := Read(text)
	if err != nil {
		return nil, err
	}
	return &read.Profiles[0], nil
}

// Read reads a configuration as kube-scheduler does: decoded strictly, defaulted, validated.
func Read(text []byte) (*internal.KubeSchedulerConfiguration, error) {
	if err := prepare(); err != nil {
		return nil, err
	}
	object, _, err := scheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
	if err != nil {
		return nil, err
	}
	read, ok := object.(*internal.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("the configuration was read as a %T", object)
	}
	if err := validation.ValidateKubeSchedulerConfiguration(read); err != nil {
		return nil, err
	}
	return read, nil
}

// V1Profile converts the profile to the v1 API without defaults.
func V1Profile(config run.Config) (*configv1.KubeSchedulerProfile, error) {
	spec := config.Profile.Spec
	profile := &configv1.KubeSchedulerProfile{
		SchedulerName:            &config.Profile.Name,
		PercentageOfNodesToScore: &spec.PercentageOfNodesToScore,
		Plugins:                  pluginsOf(spec),
	}
	for _, given := range spec.PluginConfig {
		args := given.Args
		if given.ConfigRef != nil {
			named, ok := config.Configs[given.ConfigRef.Name]
			if !ok {
				return nil, fmt.Errorf("PluginConfig %s: is not there", given.ConfigRef.Name)
			}
			args = &named.Spec.Args
		}
		profile.PluginConfig = append(profile.PluginConfig, configv1.PluginConfig{
			Name: given.Name, Args: runtime.RawExtension{Raw: args.Raw},
		})
	}
	return profile, nil
}

func pluginsOf(spec v1alpha1.SchedulingProfileSpec) *configv1.Plugins {
	var p v1alpha1.Plugins
	if spec.Plugins != nil {
		p = *spec.Plugins
	}
	multiPoint := setOf(p.MultiPoint)
	for _, name := range missing() {
		if !slices.ContainsFunc(multiPoint.Disabled, func(d configv1.Plugin) bool { return d.Name == name }) {
			multiPoint.Disabled = append(multiPoint.Disabled, configv1.Plugin{Name: name})
		}
	}
	if spec.Base == v1alpha1.BaseNone {
		multiPoint.Disabled = append(multiPoint.Disabled, configv1.Plugin{Name: v1alpha1.AllPlugins})
	}
	return &configv1.Plugins{
		MultiPoint: multiPoint,
		PreEnqueue: setOf(p.PreEnqueue),
		QueueSort:  setOf(p.QueueSort),
		PreFilter:  setOf(p.PreFilter),
		Filter:     setOf(p.Filter),
		PostFilter: setOf(p.PostFilter),
		PreScore:   setOf(p.PreScore),
		Score:      setOf(p.Score),
		Reserve:    setOf(p.Reserve),
		Permit:     setOf(p.Permit),
		PreBind:    setOf(p.PreBind),
		Bind:       setOf(p.Bind),
		PostBind:   setOf(p.PostBind),
	}
}

func setOf(set v1alpha1.PluginSet) configv1.PluginSet {
	var out configv1.PluginSet
	for _, p := range set.Enabled {
		out.Enabled = append(out.Enabled, configv1.Plugin{Name: p.Name, Weight: p.Weight})
	}
	for _, p := range set.Disabled {
		out.Disabled = append(out.Disabled, configv1.Plugin{Name: p.Name})
	}
	return out
}
