package state

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/plugins"
)

// ErrNoProfile is how the error for a name without a profile begins.
var ErrNoProfile = errors.New("no SchedulingProfile is named")

// Profile is a profile to evaluate pods with.
type Profile struct {
	Name string
	// Title says which generation of the profile it is.
	Title string
	// Hash identifies what is running; empty for a profile from a file.
	Hash      string
	Blueprint *compile.Blueprint
	// Source is the profile that was compiled, Configs are the PluginConfigs that it references.
	Source  *v1alpha1.SchedulingProfile
	Configs map[string]*v1alpha1.PluginConfig
	// HeldMessage says why pods of the profile are not scheduled; empty if they are.
	HeldMessage string
	// Serves reports whether Berth serves a schedulerName.
	Serves func(name string) bool
}

// Running returns what is running of the profile with this name. asked is the field or flag
// with the name, for the error if there is no such profile.
func (r Reader) Running(ctx context.Context, name, asked string) (*Profile, error) {
	all, err := r.Cluster.Profiles(ctx)
	if err != nil {
		return nil, err
	}
	var written *v1alpha1.SchedulingProfile
	running := map[string]bool{}
	for i := range all {
		running[all[i].Name] = all[i].Status.Programmed != nil
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
	p.Name, p.Hash, p.Serves = name, written.Status.Programmed.Hash, func(name string) bool { return running[name] }
	if written.Spec.State == v1alpha1.StatePaused {
		p.HeldMessage = fmt.Sprintf("SchedulingProfile %s is paused: the pod stays Pending until spec.state is Active", name)
	}
	return p, nil
}

// compileRunning compiles the running revision of a profile, or, if that cannot be read, its
// spec.
func (r Reader) compileRunning(ctx context.Context, written *v1alpha1.SchedulingProfile) (*Profile, error) {
	programmed := written.Status.Programmed
	if programmed == nil {
		why := "Berth has not observed it yet; `kubectl berth check` tells whether Berth is running"
		if ready := meta.FindStatusCondition(written.Status.Conditions, string(v1alpha1.ConditionReady)); ready != nil {
			why = ready.Reason + ": " + ready.Message
		}
		return nil, fmt.Errorf("SchedulingProfile %s is not running, so its pods stay Pending: %s", written.Name, why)
	}
	title := fmt.Sprintf("profile %s, generation %d, hash %s", written.Name, programmed.Generation, programmed.Hash)
	revisions, err := r.Cluster.Revisions(ctx, written.Name)
	for _, stored := range revisions {
		if stored.Name == programmed.Revision {
			return r.Compile(ctx, title, stored.Profile, nil)
		}
	}
	if err == nil {
		err = fmt.Errorf("revision %q not found", programmed.Revision)
	}
	if programmed.Generation != written.Generation {
		return nil, fmt.Errorf("SchedulingProfile %s: generation %d is running, the spec is generation %d, and the running revision cannot be read; "+
			"use --profile-file for the spec: %w", written.Name, programmed.Generation, written.Generation, err)
	}
	r.Note("the spec of %s and its current PluginConfigs are used instead of the running revision: %v", written.Name, err)
	return r.Compile(ctx, title, written, nil)
}

// Compile compiles a profile with the given PluginConfigs, and those of the cluster for
// other names.
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
		return nil, fmt.Errorf("SchedulingProfile %s is rejected by this version of kubectl-berth: %s", p.Name, rejection.Message())
	}
	return &Profile{
		Name: p.Name, Title: title, Blueprint: blueprint, Source: p, Configs: all, Serves: func(string) bool { return true },
	}, nil
}

// CheckNamespace sets HeldMessage if the profile does not allow pods of a namespace.
func (p *Profile) CheckNamespace(namespace string, in *State, note func(string, ...any)) {
	allowed := p.Blueprint.Namespaces
	if p.HeldMessage != "" || allowed == nil {
		return
	}
	has, known := in.Namespaces[namespace]
	switch {
	case in.Namespaces == nil:
		note("cannot tell whether profile %s allows namespace %s: spec.allowedNamespaces selects %s", p.Name, namespace, allowed)
	case !known || !allowed.Matches(labels.Set(has)):
		p.HeldMessage = fmt.Sprintf("SchedulingProfile %s does not allow namespace %s: the pod stays Pending until spec.allowedNamespaces (%s) matches the labels of the namespace",
			p.Name, namespace, allowed)
	}
}

// InterestedExtenders returns the names of the extenders that Berth calls for one of the pods.
func (p *Profile) InterestedExtenders(pods iter.Seq[*corev1.Pod]) (names []string) {
	for i := range p.Blueprint.Extenders {
		e := &p.Blueprint.Extenders[i]
		for pod := range pods {
			if e.Interested(pod) {
				names = append(names, e.Name)
				break
			}
		}
	}
	return names
}

// NoteExtenders adds a note about the extenders that Berth calls for a pod: no evaluation here
// calls one, since a call may change what the extender knows.
func (p *Profile) NoteExtenders(pod *corev1.Pod, note func(string, ...any)) {
	if names := p.InterestedExtenders(slices.Values([]*corev1.Pod{pod})); len(names) > 0 {
		note("extenders are not called here; those that Berth calls for this pod (%s) may reject feasible nodes and change scores", strings.Join(names, ", "))
	}
}
