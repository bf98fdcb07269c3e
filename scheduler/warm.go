package scheduler

import (
	"context"
	"fmt"
	"time"
)

// Warm is the part of the Scheduler that every replica runs: informers, cache
// and queue are kept up to date, and nothing is written.
type Standby struct{ *Scheduler }

// NeedLeaderElection says that followers run this, too.
func (Standby) NeedLeaderElection() bool { return false }

// Start blocks until ctx ends.
func (w Standby) Start(ctx context.Context) error {
	s := w.Scheduler
	synced, err := s.eventHandlers.Register(s.options.Informers)
	if err != nil {
		return fmt.Errorf("watching what is scheduled: %w", err)
	}
	if err := s.watchVolumes(); err != nil {
		return fmt.Errorf("watching volumes: %w", err)
	}
	s.options.Informers.Start(ctx.Done())
	if !synced(ctx) {
		return nil
	}
	s.profiles.NamespacesSynced()
	ticker := s.options.Clock.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			s.leadMu.Lock()
			if !s.leading {
				s.cache.UpdateSnapshot()
			}
			s.leadMu.Unlock()
		}
	}
}

// Ready says whether the Scheduler has seen all there was when it started.
func (s *Scheduler) Ready() error {
	if !s.eventHandlers.HasSynced() {
		return fmt.Errorf("pods, nodes and what tells who belongs together are still being listed")
	}
	return nil
}
