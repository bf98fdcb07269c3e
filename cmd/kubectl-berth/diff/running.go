package diff

import (
	"context"
	"fmt"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/plugins"
)

// runningProfile is what is known of what is running under a name.
type runningProfile struct {
	title  string
	effect effect
	// partial: the effect has plugins and weights only, without order; note says why.
	partial bool
	note    string
}

func (o *options) running(ctx context.Context, name string, there *v1alpha1.SchedulingProfile) runningProfile {
	switch {
	case there == nil:
		return runningProfile{title: "not in the cluster", effect: effect{}}
	case there.Status.Programmed == nil:
		return runningProfile{title: "not running", effect: effect{}}
	}
	runs := there.Status.Programmed
	title := fmt.Sprintf("running generation %d, hash %s", runs.Generation, runs.Hash)
	e, err := o.effectOfRevision(ctx, name, runs)
	if err != nil {
		return runningProfile{
			title: title, effect: effectOfStatus(runs), partial: true,
			note: fmt.Sprintf("%s: compared with its status, which has plugins and weights but not their order, arguments or settings: %v", name, err),
		}
	}
	return runningProfile{title: title + ", revision " + runs.Revision, effect: e}
}

// effectOfRevision returns the effect of the revision that is running.
func (o *options) effectOfRevision(ctx context.Context, name string, runs *v1alpha1.ProgrammedProfile) (effect, error) {
	if runs.Revision == "" {
		return nil, fmt.Errorf("no stored revision")
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
		return nil, fmt.Errorf("revision %s not found", runs.Revision)
	}
	blueprint, rejection := compile.Profile(compile.Input{Profile: revision.Profile, Registry: plugins.InTree(), Extenders: compile.AllExtenders})
	if rejection != nil {
		return nil, fmt.Errorf("revision %s is rejected by this version of kubectl-berth: %s", runs.Revision, rejection.Message())
	}
	return effectOf(blueprint)
}
