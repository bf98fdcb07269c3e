package state

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/plugins"
)

// ErrNoProfile is how the error begins that tells of a name without a profile.
var ErrNoProfile = errors.New("there is no SchedulingProfile")

// Profile is who is asked.
type Profile struct {
	Name string
	// Title says which, in words.
	Title string
	// Hash is Berth's of what runs; empty for a profile of a file.
	Hash      string
	Blueprint *compile.Blueprint
	// Source is the whole of it, as it was compiled, and Configs are the
	// PluginConfigs that it names.
	Source  *v1alpha1.SchedulingProfile
	Configs map[string]*v1alpha1.PluginConfig
	// Held is why its pods are not tried at all; empty where they are.
	HeldMessage string
	// Serves says which schedulerNames Berth serves.
	Serves func(name string) bool
}

// Running finds what runs of the profile of this name. The error names asked, the
// field or flag that it was asked for by, where there is none.
func (r Reader) Running(ctx context.Context, name, asked string) (*Profile, error) {
	all, err := r.Cluster.Profiles(ctx)
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
	if written == nil {
		return nil, fmt.Errorf("%s: %w%s", asked, ErrNoProfile, strings.TrimPrefix(cluster.ProfileNotFound(name, cluster.ProfileNames(all)), ErrNoProfile.Error()))
	}
	p, err := r.compileRunning(ctx, written)
	if err != nil {
		return nil, err
	}
	p.Name, p.Hash, p.Serves = name, written.Status.Programmed.Hash, func(name string) bool { return runs[name] }
	if written.Spec.State == v1alpha1.StatePaused {
		p.HeldMessage = fmt.Sprintf("SchedulingProfile %s is paused: the pod waits until its spec.state is Active", name)
	}
	return p, nil
}

// running is what runs of a profile: its revision, or where that cannot be read,
// the profile as it is written.
func (r Reader) compileRunning(ctx context.Context, written *v1alpha1.SchedulingProfile) (*Profile, error) {
	programmed := written.Status.Programmed
	if programmed == nil {
		why := "nobody has looked at it yet; `kubectl berth check` says whether Berth runs"
		if ready := meta.FindStatusCondition(written.Status.Conditions, string(v1alpha1.ConditionReady)); ready != nil {
			why = ready.Reason + ": " + ready.Message
		}
		return nil, fmt.Errorf("SchedulingProfile %s: nothing runs under that name, so its pods wait: %s", written.Name, why)
	}
	title := fmt.Sprintf("profile %s, generation %d, hash %s", written.Name, programmed.Generation, programmed.Hash)
	revisions, err := r.Cluster.Revisions(ctx, written.Name)
	for _, stored := range revisions {
		if stored.Name == programmed.Revision {
			return r.Compile(ctx, title, stored.Profile, nil)
		}
	}
	if err == nil {
		err = fmt.Errorf("there is no revision %q", programmed.Revision)
	}
	if programmed.Generation != written.Generation {
		return nil, fmt.Errorf("SchedulingProfile %s: generation %d runs, generation %d is written, and the revision that runs is not to be read; "+
			"--profile-file tries what is written: %w", written.Name, programmed.Generation, written.Generation, err)
	}
	r.Note("%s is taken as it is written, with its PluginConfigs as they are now: %v", written.Name, err)
	return r.Compile(ctx, title, written, nil)
}

// Compile resolves a profile, with PluginConfigs of the cluster where none of
// that name is given.
func (r Reader) Compile(ctx context.Context, title string, p *v1alpha1.SchedulingProfile, configs map[string]*v1alpha1.PluginConfig) (*Profile, error) {
	all := map[string]*v1alpha1.PluginConfig{}
	for _, entry := range p.Spec.PluginConfig {
		if entry.ConfigRef == nil {
			continue
		}
		config := configs[entry.ConfigRef.Name]
		if config == nil {
			var err error
			if config, err = r.Cluster.PluginConfig(ctx, entry.ConfigRef.Name); err != nil {
				return nil, fmt.Errorf("PluginConfig %s: %w", entry.ConfigRef.Name, err)
			}
		}
		if config != nil {
			all[config.Name] = config
		}
	}
	blueprint, rejection := compile.Profile(compile.Input{Profile: p, Configs: all, Registry: plugins.InTree(), Extenders: compile.AllExtenders})
	if rejection != nil {
		return nil, fmt.Errorf("SchedulingProfile %s, as this plugin understands it: %s", p.Name, rejection.Message())
	}
	return &Profile{
		Name: p.Name, Title: title, Blueprint: blueprint, Source: p, Configs: all, Serves: func(string) bool { return true },
	}, nil
}

// Holds finds out whether the profile takes pods of a namespace.
func (p *Profile) CheckNamespace(namespace string, in *State, note func(string, ...any)) {
	allowed := p.Blueprint.Namespaces
	if p.HeldMessage != "" || allowed == nil {
		return
	}
	has, known := in.Namespaces[namespace]
	switch {
	case in.Namespaces == nil:
		note("whether profile %s takes pods of namespace %s is not known: spec.allowedNamespaces asks for %s", p.Name, namespace, allowed)
	case !known || !allowed.Matches(labels.Set(has)):
		p.HeldMessage = fmt.Sprintf("SchedulingProfile %s takes no pods of namespace %s: the pod waits until spec.allowedNamespaces (%s) matches the namespace's labels",
			p.Name, namespace, allowed)
	}
}
