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
	// sweepPause is how often revisions of profiles that are gone are looked
	// for.
	pruneInterval = time.Hour
	// lastWords is how long the end of the process may take to say that it
	// ends well.
	closeTimeout = 5 * time.Second
)

// sweeper prunes the histories of profiles that are gone, and says at its end
// that the process did not die.
type historyPruner struct {
	profiles client.Reader
	history  *history.History
	clock    clock.Clock
}

// NeedLeaderElection keeps followers from writing.
func (s *historyPruner) NeedLeaderElection() bool { return true }

// Start sweeps until ctx ends. A sweep that fails is made again with the next.
func (s *historyPruner) Start(ctx context.Context) error {
	for {
		if err := s.prune(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Histories could not be pruned")
		}
		timer := s.clock.NewTimer(pruneInterval)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
			defer cancel()
			if err := s.history.Close(last); err != nil {
				log.FromContext(ctx).Error(err, "The end of the process could not be noted: it may be taken for a crash")
			}
			return nil
		}
	}
}

func (s *historyPruner) prune(ctx context.Context) error {
	var profiles v1alpha1.SchedulingProfileList
	if err := s.profiles.List(ctx, &profiles); err != nil {
		return err
	}
	return s.history.PruneDeleted(ctx, func(name string) bool {
		return slices.ContainsFunc(profiles.Items, func(p v1alpha1.SchedulingProfile) bool { return p.Name == name })
	})
}
