package diff

import (
	"context"
	"fmt"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/plugins"
)

// running is what is known of what runs under a name.
type runningProfile struct {
	title  string
	effect effect
	// partly says that the effect is of plugins and weights alone, in no order;
	// note says why.
	partial bool
	note    string
}

func (o *options) running(ctx context.Context, name string, there *v1alpha1.SchedulingProfile) (runningProfile, error) {
	switch {
	case there == nil:
		return runningProfile{title: "there is no such profile", effect: effect{}}, nil
	case there.Status.Programmed == nil:
		return runningProfile{title: "nothing runs", effect: effect{}}, nil
	}
	runs := there.Status.Programmed
	title := fmt.Sprintf("generation %d runs, hash %s", runs.Generation, runs.Hash)
	e, err := o.effectOfRevision(ctx, name, runs)
	if err != nil {
		return runningProfile{
			title: title, effect: effectOfStatus(runs), partial: true,
			note: fmt.Sprintf("%s: compared by its status, which knows plugins and weights, but no order, arguments or settings: %v", name, err),
		}, nil
	}
	return runningProfile{title: title + ", revision " + runs.Revision, effect: e}, nil
}

// stored is the effect of the revision that runs.
func (o *options) effectOfRevision(ctx context.Context, name string, runs *v1alpha1.ProgrammedProfile) (effect, error) {
	if runs.Revision == "" {
		return nil, fmt.Errorf("no revision of it is stored")
	}
	revisions, err := o.cluster.Revisions(ctx, name)
	if err != nil {
		return nil, err
	}
	var revision *cluster.Revision
	for i := range revisions {
		if revisions[i].Name == runs.Revision {
			revision = &revisions[i]
		}
	}
	if revision == nil {
		return nil, fmt.Errorf("revision %s is gone", runs.Revision)
	}
	blueprint, rejection := compile.Profile(compile.Input{Profile: revision.Profile, Registry: plugins.InTree(), Extenders: compile.AllExtenders})
	if rejection != nil {
		return nil, fmt.Errorf("this plugin does not know what revision %s says: %s", runs.Revision, rejection.Message())
	}
	return effectOf(blueprint)
}
