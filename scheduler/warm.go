package scheduler

import (
	"context"
	"fmt"
	"time"
)

// Standby is the part of the Scheduler that every replica runs: it keeps informers,
// cache and queue up to date and writes nothing.
type Standby struct{ *Scheduler }

// NeedLeaderElection reports that followers run Standby too.
func (Standby) NeedLeaderElection() bool { return false }

// Start runs until ctx ends. It refreshes the snapshot every second until the loop
// leads, so that a new leader begins with a current one.
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

// Ready returns nil once the Scheduler has handled all objects that existed when it
// started.
func (s *Scheduler) Ready() error {
	if !s.eventHandlers.HasSynced() {
		return fmt.Errorf("pods, nodes and what tells who belongs together are still being listed")
	}
	return nil
}
