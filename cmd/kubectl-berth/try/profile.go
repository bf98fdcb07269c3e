package try

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/manifest"
	"github.com/berthdev/berth/cmd/kubectl-berth/state"
)

// reader returns the reader of the cluster.
func (o *options) reader() state.Reader {
	return state.Reader{Cluster: o.cluster, Preempts: true, Note: o.note}
}

// selectProfile returns the profile that the pods are tried with.
func (o *options) selectProfile(ctx context.Context, s *subject) (*state.Profile, error) {
	switch {
	case len(o.profileFiles) > 0:
		return o.profileFromFile(ctx)
	case o.profile != "":
		return o.reader().Running(ctx, o.profile, "--profile")
	}
	p, err := o.reader().Running(ctx, cmp.Or(s.pod.Spec.SchedulerName, v1.DefaultSchedulerName), "spec.schedulerName")
	if errors.Is(err, state.ErrNoProfile) {
		return nil, fmt.Errorf("%w; select one with --profile", err)
	}
	return p, err
}

// profileFromFile returns the profile of --profile-file.
func (o *options) profileFromFile(ctx context.Context) (*state.Profile, error) {
	files, err := manifest.Read(ctx, o.profileFiles, o.In)
	if err != nil {
		return nil, fmt.Errorf("--profile-file: %w", err)
	}
	for _, object := range files.Objects {
		if object.Errors != nil {
			return nil, fmt.Errorf("--profile-file: %s: %s would be rejected: %s", object.Source, object.Title, object.Errors[0])
		}
	}
	var chosen *v1alpha1.SchedulingProfile
	for _, p := range files.Profiles() {
		switch {
		case o.profile != "" && p.Name != o.profile:
		case chosen != nil:
			return nil, fmt.Errorf("--profile-file: contains %s and %s; select one with --profile", chosen.Name, p.Name)
		default:
			chosen = p
		}
	}
	if chosen == nil {
		return nil, fmt.Errorf("--profile-file: contains no SchedulingProfile %s", o.profile)
	}
	p, err := o.reader().Compile(ctx, "profile "+chosen.Name+" from the file", chosen, files.Configs())
	if err != nil {
		return nil, fmt.Errorf("--profile-file: %w", err)
	}
	return p, nil
}
