package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/manifest"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/upstreamconfig"
)

// toKubeScheduler writes one configuration for the profiles of the files, or for a profile
// of the cluster.
func (o *options) toKubeScheduler(ctx context.Context, name string) error {
	profiles, configs, err := o.profiles(ctx, name)
	if err != nil {
		return err
	}
	var blueprints []*compile.Blueprint
	var remarks []upstreamconfig.Remark
	for _, p := range profiles {
		b, rejection := compile.Profile(compile.Input{Profile: p, Configs: configs, Registry: o.registry, Extenders: compile.AllExtenders})
		if rejection != nil {
			return fmt.Errorf("SchedulingProfile %s: %s", p.Name, rejection.Message())
		}
		blueprints = append(blueprints, b)
		remarks = append(remarks, unsupportedFields(p)...)
	}
	config, more, err := upstreamconfig.ForKubeScheduler(blueprints, o.registry)
	if err != nil {
		return err
	}
	text, err := upstreamconfig.JSON(config)
	if err != nil {
		return err
	}
	if text, err = yaml.JSONToYAML(text); err != nil {
		return err
	}
	if _, err := o.Out.Write(text); err != nil {
		return err
	}
	return o.printRemarks(append(more, remarks...))
}

// profiles returns the profiles to convert, and the PluginConfigs that they reference.
func (o *options) profiles(ctx context.Context, name string) ([]*v1alpha1.SchedulingProfile, map[string]*v1alpha1.PluginConfig, error) {
	if name != "" {
		return o.clusterProfile(ctx, name)
	}
	files, err := manifest.Read(ctx, o.files, o.In)
	if err != nil {
		return nil, nil, err
	}
	for _, object := range files.Objects {
		if object.Errors != nil {
			return nil, nil, fmt.Errorf("%s: %s would be rejected by the API server: %s", object.Source, object.Title, strings.Join(object.Errors, "; "))
		}
	}
	if len(files.Profiles()) == 0 {
		return nil, nil, errors.New("-f: contains no SchedulingProfile")
	}
	return files.Profiles(), files.Configs(), nil
}

// clusterProfile returns a profile of the cluster.
func (o *options) clusterProfile(ctx context.Context, name string) ([]*v1alpha1.SchedulingProfile, map[string]*v1alpha1.PluginConfig, error) {
	c, err := o.Open(ctx)
	if err != nil {
		return nil, nil, err
	}
	p, err := c.Profile(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	configs := map[string]*v1alpha1.PluginConfig{}
	for _, entry := range p.Spec.PluginConfig {
		if entry.ConfigRef == nil {
			continue
		}
		config, err := c.PluginConfig(ctx, entry.ConfigRef.Name)
		if err != nil {
			return nil, nil, fmt.Errorf("PluginConfig %s: %w", entry.ConfigRef.Name, err)
		}
		if config != nil {
			configs[config.Name] = config
		}
	}
	return []*v1alpha1.SchedulingProfile{p}, configs, nil
}

// unsupportedFields returns remarks on fields that are not in the Blueprint, or that
// kube-scheduler does not have.
func unsupportedFields(p *v1alpha1.SchedulingProfile) []upstreamconfig.Remark {
	var remarks []upstreamconfig.Remark
	if p.Spec.State == v1alpha1.StatePaused {
		remarks = append(remarks, upstreamconfig.Remark{Path: "spec.state", Text: "kube-scheduler has no paused profiles: it would schedule the pods that are pending now", Lost: true})
	}
	var defaults v1alpha1.SchedulingProfileSpec
	defaults.SetDefaults()
	own := p.Spec.DeepCopy()
	own.SetDefaults()
	if !equality.Semantic.DeepEqual(own.Decisions, defaults.Decisions) {
		remarks = append(remarks, upstreamconfig.Remark{Path: "spec.decisions", Text: "left out: kube-scheduler records no decisions"})
	}
	if cmp.Or(own.Activation, v1alpha1.ActivationAutomatic) != v1alpha1.ActivationAutomatic {
		remarks = append(remarks, upstreamconfig.Remark{Path: "spec.activation", Text: "left out: kube-scheduler reads its file once, at start"})
	}
	if !equality.Semantic.DeepEqual(own.Exports, defaults.Exports) {
		remarks = append(remarks, upstreamconfig.Remark{Path: "spec.exports", Text: "left out: kube-scheduler writes no file for cluster-autoscaler; give it this one"})
	}
	return remarks
}
