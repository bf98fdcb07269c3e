package controllers

import (
	"context"
	"slices"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/controllers/history"
)

const (
	// pruneInterval is how often revisions of deleted profiles are looked for.
	pruneInterval = time.Hour
	// closeTimeout is how long a graceful shutdown may take to record that it is one.
	closeTimeout = 5 * time.Second
)

// historyPruner deletes the revisions of deleted profiles, and records at a graceful
// shutdown that the process did not crash.
type historyPruner struct {
	profiles client.Reader
	history  *history.History
	clock    clock.Clock
}

// NeedLeaderElection returns true: only the leader writes.
func (p *historyPruner) NeedLeaderElection() bool { return true }

// Start prunes until ctx ends. After an error it tries again at the next interval.
func (p *historyPruner) Start(ctx context.Context) error {
	for {
		if err := p.prune(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Histories could not be pruned")
		}
		timer := p.clock.NewTimer(pruneInterval)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
			defer cancel()
			if err := p.history.Close(last); err != nil {
				log.FromContext(ctx).Error(err, "The graceful shutdown could not be recorded: it may count as a crash")
			}
			return nil
		}
	}
}

func (p *historyPruner) prune(ctx context.Context) error {
	var profiles v1alpha1.SchedulingProfileList
	if err := p.profiles.List(ctx, &profiles); err != nil {
		return err
	}
	return p.history.PruneDeleted(ctx, func(name string) bool {
		return slices.ContainsFunc(profiles.Items, func(profile v1alpha1.SchedulingProfile) bool { return profile.Name == name })
	})
}
