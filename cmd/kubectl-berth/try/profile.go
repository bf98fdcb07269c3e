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

// reader reads what the answer is made from.
func (o *options) reader() state.Reader {
	return state.Reader{Cluster: o.cluster, In: o.In, Preempts: true, Note: o.note}
}

// scheduler finds the profile that is asked about the subject.
func (o *options) selectProfile(ctx context.Context, s *subject) (*state.Profile, error) {
	switch {
	case len(o.profileFiles) > 0:
		return o.profileFromFile(ctx)
	case o.profile != "":
		return o.reader().Running(ctx, o.profile, "--profile")
	}
	p, err := o.reader().Running(ctx, cmp.Or(s.pod.Spec.SchedulerName, v1.DefaultSchedulerName), "spec.schedulerName")
	if errors.Is(err, state.ErrNoProfile) {
		return nil, fmt.Errorf("%w; say which with --profile", err)
	}
	return p, err
}

// unapplied is the profile of a file.
func (o *options) profileFromFile(ctx context.Context) (*state.Profile, error) {
	files, err := manifest.Read(ctx, o.profileFiles, o.In)
	if err != nil {
		return nil, fmt.Errorf("--profile-file: %w", err)
	}
	for _, object := range files.Objects {
		if object.Errors != nil {
			return nil, fmt.Errorf("--profile-file: %s: %s would be refused: %s", object.Source, object.Title, object.Errors[0])
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
	p, err := o.reader().Compile(ctx, "profile "+chosen.Name+" of the file", chosen, files.Configs())
	if err != nil {
		return nil, fmt.Errorf("--profile-file: %w", err)
	}
	return p, nil
}

// extenders are the names of those that would be asked about a pod.
func interestedExtenders(p *state.Profile, pod *v1.Pod) []string {
	var names []string
	for i := range p.Blueprint.Extenders {
		if e := &p.Blueprint.Extenders[i]; e.Interested(pod) {
			names = append(names, e.Name)
		}
	}
	return names
}
