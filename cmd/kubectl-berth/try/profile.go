package try

import (
	"cmp"
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/manifest"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/plugins"
)

// profile is who is asked.
type profile struct {
	name string
	// title says which, in words.
	title     string
	blueprint *compile.Blueprint
	// held is why its pods are not tried at all; empty where they are.
	held string
	// serves says which schedulerNames Berth serves.
	serves func(name string) bool
}

// scheduler finds the profile that is asked about the subject.
func (o *options) scheduler(ctx context.Context, s *subject) (*profile, error) {
	if len(o.profileFiles) > 0 {
		return o.unapplied(ctx)
	}
	name := cmp.Or(o.profile, s.pod.Spec.SchedulerName, v1.DefaultSchedulerName)
	all, err := o.cluster.Profiles(ctx)
	if err != nil {
		return nil, err
	}
	var written *v1alpha1.SchedulingProfile
	runs := map[string]bool{}
	for i := range all {
		runs[all[i].Name] = all[i].Status.Programmed != nil
		if all[i].Name == name {
			written = &all[i]
		}
	}
	switch {
	case written == nil && o.profile == "":
		return nil, fmt.Errorf("spec.schedulerName: %s; say which with --profile", cluster.NoProfile(name, cluster.Names(all)))
	case written == nil:
		return nil, fmt.Errorf("--profile: %s", cluster.NoProfile(name, cluster.Names(all)))
	}
	p, err := o.running(ctx, written)
	if err != nil {
		return nil, err
	}
	p.name, p.serves = name, func(name string) bool { return runs[name] }
	if written.Spec.State == v1alpha1.StatePaused {
		p.held = fmt.Sprintf("SchedulingProfile %s is paused: the pod waits until its spec.state is Active", name)
	}
	return p, nil
}

// running is what runs of a profile: its revision, or where that cannot be read,
// the profile as it is written.
func (o *options) running(ctx context.Context, written *v1alpha1.SchedulingProfile) (*profile, error) {
	programmed := written.Status.Programmed
	if programmed == nil {
		why := "nobody has looked at it yet; `kubectl berth check` says whether Berth runs"
		if ready := meta.FindStatusCondition(written.Status.Conditions, string(v1alpha1.ConditionReady)); ready != nil {
			why = ready.Reason + ": " + ready.Message
		}
		return nil, fmt.Errorf("SchedulingProfile %s: nothing runs under that name, so its pods wait: %s", written.Name, why)
	}
	title := fmt.Sprintf("profile %s, generation %d, hash %s", written.Name, programmed.Generation, programmed.Hash)
	revisions, err := o.cluster.Revisions(ctx, written.Name)
	for _, r := range revisions {
		if r.Name == programmed.Revision {
			blueprint, err := o.compile(ctx, r.Profile, nil)
			return &profile{title: title, blueprint: blueprint}, err
		}
	}
	if err == nil {
		err = fmt.Errorf("there is no revision %q", programmed.Revision)
	}
	if programmed.Generation != written.Generation {
		return nil, fmt.Errorf("SchedulingProfile %s: generation %d runs, generation %d is written, and the revision that runs is not to be read; "+
			"--profile-file tries what is written: %w", written.Name, programmed.Generation, written.Generation, err)
	}
	o.note("%s is taken as it is written, with its PluginConfigs as they are now: %v", written.Name, err)
	blueprint, err := o.compile(ctx, written, nil)
	return &profile{title: title, blueprint: blueprint}, err
}

// unapplied is the profile of a file.
func (o *options) unapplied(ctx context.Context) (*profile, error) {
	files, err := manifest.Read(ctx, o.profileFiles, o.In)
	if err != nil {
		return nil, fmt.Errorf("--profile-file: %w", err)
	}
	for _, object := range files.Objects {
		if object.Refused != nil {
			return nil, fmt.Errorf("--profile-file: %s: %s would be refused: %s", object.Source, object.Title, object.Refused[0])
		}
	}
	var chosen *v1alpha1.SchedulingProfile
	for _, p := range files.Profiles() {
		switch {
		case o.profile != "" && p.Name != o.profile:
		case chosen != nil:
			return nil, fmt.Errorf("--profile-file: it holds %s and %s: say which with --profile", chosen.Name, p.Name)
		default:
			chosen = p
		}
	}
	if chosen == nil {
		return nil, fmt.Errorf("--profile-file: it holds no SchedulingProfile %s", o.profile)
	}
	blueprint, err := o.compile(ctx, chosen, files.Configs())
	if err != nil {
		return nil, fmt.Errorf("--profile-file: %w", err)
	}
	return &profile{
		name: chosen.Name, blueprint: blueprint, title: "profile " + chosen.Name + " of the file", serves: func(string) bool { return true },
	}, nil
}

// compile resolves a profile, with PluginConfigs of the cluster where none of
// that name is given.
func (o *options) compile(ctx context.Context, p *v1alpha1.SchedulingProfile, configs map[string]*v1alpha1.PluginConfig) (*compile.Blueprint, error) {
	all := map[string]*v1alpha1.PluginConfig{}
	for _, entry := range p.Spec.PluginConfig {
		if entry.ConfigRef == nil {
			continue
		}
		config := configs[entry.ConfigRef.Name]
		if config == nil {
			var err error
			if config, err = o.cluster.PluginConfig(ctx, entry.ConfigRef.Name); err != nil {
				return nil, fmt.Errorf("PluginConfig %s: %w", entry.ConfigRef.Name, err)
			}
		}
		if config != nil {
			all[config.Name] = config
		}
	}
	blueprint, rejection := compile.Profile(compile.Input{Profile: p, Configs: all, Registry: plugins.InTree()})
	if rejection != nil {
		return nil, fmt.Errorf("SchedulingProfile %s, as this plugin understands it: %s", p.Name, rejection.Message())
	}
	return blueprint, nil
}

// holds finds out whether the profile takes pods of the subject's namespace.
func (p *profile) holds(s *subject, state *state, note func(string, ...any)) {
	allowed := p.blueprint.Namespaces
	if p.held != "" || allowed == nil {
		return
	}
	has, known := state.namespaces[s.pod.Namespace]
	switch {
	case state.namespaces == nil:
		note("whether profile %s takes pods of namespace %s is not known: spec.allowedNamespaces asks for %s", p.name, s.pod.Namespace, allowed)
	case !known || !allowed.Matches(labels.Set(has)):
		p.held = fmt.Sprintf("SchedulingProfile %s takes no pods of namespace %s: the pod waits until spec.allowedNamespaces (%s) matches the namespace's labels",
			p.name, s.pod.Namespace, allowed)
	}
}
