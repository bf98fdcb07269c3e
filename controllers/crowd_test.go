package controllers

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/scheduler/decision"
)

func TestACrowdOfHeldPodsIsOneEventOnTheProfile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, told := startPress(t, aProfile(1)), &recorder{}
		var parked atomic.Int64
		p.ledger.CountQueueWith(func(string) decision.QueueCounts { return decision.QueueCounts{Parked: int(parked.Load())} })
		p.crowds.recorder = told
		for _, n := range []int64{crowd - 1, crowd, 2 * crowd, 1, 3 * crowd, 0, crowd} {
			parked.Store(n)
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		p.stop()
		if diff := cmp.Diff([]string{"Warning PodsHeld Scheduling", "Warning PodsHeld Scheduling"}, told.events); diff != "" {
			t.Errorf("events, one before all were let go and one after (-want +got):\n%s", diff)
		}
	})
}
