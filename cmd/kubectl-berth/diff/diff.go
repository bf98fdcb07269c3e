// Package diff is `kubectl berth diff`: what would be decided otherwise, were
// these files applied? Plugins, weights, order and arguments are compared after
// all merging and defaulting, not as they are spelled.
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

// Verb describes it.
var Verb = verb.Verb{
	Name: "diff", Arguments: "-f FILE...",
	Short: "Show what would be decided otherwise, were files applied",
	Long: `Compares the effective plugins of each extension point, with weights and in order,
their arguments with defaults, and the profile's settings, with those that run:
the stored revision, or where that cannot be read, the profile's status, which
knows the plugins and their weights alone. A PluginConfig in the files is compared
in each profile of the cluster that names it.`,
	Permissions: []verb.Permission{
		{Verbs: []string{"list"}, Group: v1alpha1.GroupVersion.Group, Resource: "schedulingprofiles"},
		{Verbs: []string{"get"}, Group: v1alpha1.GroupVersion.Group, Resource: "pluginconfigs", Purpose: "for those that the files leave out"},
		{Verbs: []string{"list"}, Group: "apps", Resource: "controllerrevisions", Scope: verb.InBerthNamespace, Purpose: "for order and arguments"},
	},
	Examples: []verb.Example{
		{Description: "What would this change?", Command: "kubectl berth diff -f batch.yaml"},
		{Description: "Does the cluster run what git says?", Command: "kubectl kustomize . | kubectl berth diff -f -"},
	},
	OnSuccess: "what runs decides as the files do", OnFindings: "something differs",
}

type options struct {
	verb.Env
	cluster *cluster.Cluster
	// configs are the PluginConfigs of the files, and those of the cluster that
	// were needed.
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
			return fmt.Errorf("%s: %s would be refused: %s; `kubectl berth lint` says it all", object.Source, object.Title, object.Errors[0])
		}
	}
	if o.cluster, err = o.Open(); err != nil {
		return err
	}
	runs, err := o.cluster.Profiles(ctx)
	if err != nil {
		return err
	}
	o.configs = files.Configs()
	wanted := o.profilesToCompare(files, runs)
	if len(wanted) == 0 {
		return errors.New("-f: nothing to compare: no profile is in the files, and none in the cluster names their PluginConfigs")
	}
	differs := false
	for _, p := range wanted {
		other, err := o.compare(ctx, p, findProfile(runs, p.Name))
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

// wanted are the profiles of the files, and those of the cluster that name a
// PluginConfig of the files.
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

// compare prints what differs between what is wanted and what runs.
func (o *options) compare(ctx context.Context, wanted, there *v1alpha1.SchedulingProfile) (differs bool, err error) {
	blueprint, err := o.resolve(ctx, wanted)
	if err != nil {
		return false, err
	}
	want, err := effectOf(blueprint)
	if err != nil {
		return false, err
	}
	run, err := o.running(ctx, wanted.Name, there)
	if err != nil {
		return false, err
	}
	if run.partial {
		want = want.unordered()
	}
	if there != nil {
		want[stateTitle], run.effect[stateTitle] = stateLines(wanted), stateLines(there)
	}
	if run.note != "" {
		fmt.Fprintln(o.ErrOut, show.Wrap(run.note, "", "  "))
	}
	for _, title := range sortedTitles(want, run.effect) {
		lines := show.Diff(run.effect[title], want[title])
		if lines == nil {
			continue
		}
		if !differs {
			fmt.Fprintf(o.Out, "--- %s: %s\n+++ %s: as in the files\n", wanted.Name, run.title, wanted.Name)
		}
		differs = true
		fmt.Fprintf(o.Out, "@@ %s @@\n", title)
		for _, line := range lines {
			fmt.Fprintln(o.Out, line)
		}
	}
	if !differs {
		fmt.Fprintf(o.ErrOut, "%s: no difference: %s\n", wanted.Name, run.title)
	}
	return differs, nil
}

// writtenIn is what is no part of a hash, and changes what pods meet.
func stateLines(p *v1alpha1.SchedulingProfile) []string {
	return []string{"state: " + string(p.Spec.State), "activation: " + string(p.Spec.Activation)}
}

// resolve compiles a profile with the PluginConfigs of the files, and those of
// the cluster that the files leave out.
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
		return nil, fmt.Errorf("would be refused: %s", rejection.Message())
	}
	return blueprint, nil
}

func findProfile(profiles []v1alpha1.SchedulingProfile, name string) *v1alpha1.SchedulingProfile {
	for i := range profiles {
		if profiles[i].Name == name {
			return &profiles[i]
		}
	}
	return nil
}
