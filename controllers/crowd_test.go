package controllers

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/scheduler/decision"
)

func TestManyHeldPodsAreOneEventOnTheProfile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, recorder := startPublisher(t, newProfile(1)), &fakeRecorder{}
		var held atomic.Int64
		p.ledger.SetQueueCounts(func(string) decision.QueueCounts { return decision.QueueCounts{Held: int(held.Load())} })
		p.heldPods.recorder = recorder
		for _, n := range []int64{heldPodsThreshold - 1, heldPodsThreshold, 2 * heldPodsThreshold, 1, 3 * heldPodsThreshold, 0, heldPodsThreshold} {
			held.Store(n)
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		p.stop()
		if diff := cmp.Diff([]string{"Warning PodsHeld Scheduling", "Warning PodsHeld Scheduling"}, recorder.events); diff != "" {
			t.Errorf("events, one before all pods were released and one after (-want +got):\n%s", diff)
		}
	})
}
