// Package diff is `kubectl berth diff`: it shows what would change if files were applied.
// Plugins, weights, order and arguments are compared after merging and defaulting, not as
// they are written.
package diff

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/manifest"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
	"github.com/berthdev/berth/cmd/kubectl-berth/verb"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/plugins"
)

// Verb describes the verb.
var Verb = verb.Verb{
	Name: "diff", Arguments: "-f FILE...",
	Short: "Show what would change if files were applied",
	Long: `Compares the files with what is running: the effective plugins of each extension point
with their weights and order, their arguments with defaults, the extenders, and the
settings of the profile. What is running is read from the stored revision, or, if that
cannot be read, from the status of the profile, which has plugins and weights only. A
PluginConfig in the files is compared in each profile of the cluster that references it.`,
	Permissions: []verb.Permission{
		{Verbs: []string{"list"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingprofiles"},
		{Verbs: []string{"get"}, Group: v1alpha1.GroupVersion.Group, Resource: "pluginconfigs", Purpose: "for those that the files do not contain"},
		{Verbs: []string{"list"}, Group: "apps", Resource: "controllerrevisions", Scope: verb.InBerthNamespace, Purpose: "for the order of plugins and their arguments"},
	},
	Examples: []verb.Example{
		{Description: "What would this file change?", Command: "kubectl berth diff -f batch.yaml"},
		{Description: "Does the cluster run what is in git?", Command: "kubectl kustomize . | kubectl berth diff -f -"},
	},
	OnSuccess: "no differences", OnFindings: "differences were found",
}

type options struct {
	verb.Env
	cluster *cluster.Cluster
	// configs are the PluginConfigs of the files, and those of the cluster that the profiles
	// reference.
	configs map[string]*v1alpha1.PluginConfig
}

// New returns the command.
func New(env verb.Env) *cobra.Command { return Verb.FilesCommand((&options{Env: env}).run) }

func (o *options) run(ctx context.Context, names []string) error {
	files, err := manifest.Read(ctx, names, o.In)
	if err != nil {
		return err
	}
	for _, object := range files.Objects {
		if object.Errors != nil {
			return fmt.Errorf("%s: %s would be rejected: %s; `kubectl berth lint` lists all errors", object.Source, object.Title, object.Errors[0])
		}
	}
	if o.cluster, err = o.Open(ctx); err != nil {
		return err
	}
	runs, err := o.cluster.Profiles(ctx)
	if err != nil {
		return err
	}
	o.configs = files.Configs()
	wanted := o.profilesToCompare(files, runs)
	if len(wanted) == 0 {
		return errors.New("-f: nothing to compare: the files contain no profile, and no profile in the cluster references their PluginConfigs")
	}
	differs := false
	for _, p := range wanted {
		other, err := o.compare(ctx, p, cluster.FindProfile(runs, p.Name))
		if err != nil {
			return fmt.Errorf("SchedulingProfile %s: %w", p.Name, err)
		}
		differs = differs || other
	}
	if differs {
		return verb.ErrFindings
	}
	return nil
}

// profilesToCompare returns the profiles of the files, and the profiles of the cluster that
// reference a PluginConfig of the files.
func (o *options) profilesToCompare(files *manifest.Files, runs []v1alpha1.SchedulingProfile) []*v1alpha1.SchedulingProfile {
	wanted := files.Profiles()
	mine := map[string]bool{}
	for _, p := range wanted {
		mine[p.Name] = true
	}
	for i := range runs {
		for _, entry := range runs[i].Spec.PluginConfig {
			if entry.ConfigRef != nil && o.configs[entry.ConfigRef.Name] != nil && !mine[runs[i].Name] {
				mine[runs[i].Name] = true
				wanted = append(wanted, &runs[i])
			}
		}
	}
	return wanted
}

// compare prints the differences between a profile and what is running under its name.
func (o *options) compare(ctx context.Context, wanted, there *v1alpha1.SchedulingProfile) (differs bool, err error) {
	blueprint, err := o.resolve(ctx, wanted)
	if err != nil {
		return false, err
	}
	want, err := effectOf(blueprint)
	if err != nil {
		return false, err
	}
	run := o.running(ctx, wanted.Name, there)
	if run.partial {
		want = want.unordered()
	}
	if there != nil {
		want[stateTitle], run.effect[stateTitle] = stateLines(wanted), stateLines(there)
	}
	if run.note != "" {
		fmt.Fprintln(o.ErrOut, show.Wrap(run.note, "", "  "))
	}
	sections, _ := compareEffects(run.effect, want)
	if len(sections) == 0 {
		fmt.Fprintf(o.ErrOut, "%s: no difference: %s\n", wanted.Name, run.title)
		return false, nil
	}
	fmt.Fprintf(o.Out, "--- %s: %s\n+++ %s: files\n", wanted.Name, run.title, wanted.Name)
	for _, section := range sections {
		fmt.Fprintf(o.Out, "@@ %s @@\n", section.Title)
		for _, line := range section.Lines {
			fmt.Fprintf(o.Out, "%s %s\n", line.Sign, line.Text)
		}
	}
	return true, nil
}

// stateLines are the fields that are not part of the hash.
func stateLines(p *v1alpha1.SchedulingProfile) []string {
	lines := []string{"state: " + string(p.Spec.State), "activation: " + string(p.Spec.Activation)}
	if a := p.Spec.Exports.Autoscaler; a != nil {
		lines = append(lines, "exports.autoscaler.configMap: "+a.ConfigMap)
	}
	return lines
}

// resolve compiles a profile with the PluginConfigs of the files, and those of the cluster
// that the files do not contain.
func (o *options) resolve(ctx context.Context, p *v1alpha1.SchedulingProfile) (*compile.Blueprint, error) {
	for _, entry := range p.Spec.PluginConfig {
		if entry.ConfigRef == nil || o.configs[entry.ConfigRef.Name] != nil {
			continue
		}
		config, err := o.cluster.PluginConfig(ctx, entry.ConfigRef.Name)
		if err != nil {
			return nil, err
		}
		if config != nil {
			o.configs[config.Name] = config
		}
	}
	blueprint, rejection := compile.Profile(compile.Input{Profile: p, Configs: o.configs, Registry: plugins.InTree(), Extenders: compile.AllExtenders})
	if rejection != nil {
		return nil, fmt.Errorf("would be rejected: %s", rejection.Message())
	}
	return blueprint, nil
}
