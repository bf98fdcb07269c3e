package scheduler

import (
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// mostTurns is how often a test lets other goroutines run before it gives up on
// them. Time stands still meanwhile: what holds a lock is not waiting for time.
const maxYields = 1_000_000

// The status controller may wait for anything when it hears that a profile is
// degraded, even for the pod whose plugin is late.
func TestAPodIsBoundWhileItsAbandonedCallIsReported(t *testing.T) {
	runWithFaultyPlugin(t, func(w *testEnv, o *faultyPlugin) {
		bound := func() bool {
			page, _ := w.options.Ledger.History("p", 0)
			return page.Totals.Bound > 0
		}
		var reported, landed atomic.Bool
		w.Profiles().OnDegradedChange(func(string) {
			if !reported.CompareAndSwap(false, true) {
				return
			}
			o.unblock()
			for range maxYields {
				if bound() {
					landed.Store(true)
					return
				}
				runtime.Gosched()
			}
		})
		w.create(faultyPod("a", "PreBindPreFlight hangs once"))
		time.Sleep(time.Minute)
		synctest.Wait()
		if !reported.Load() {
			t.Fatal("the late call was not reported")
		}
		if !landed.Load() {
			t.Error("the pod did not land while its late call was reported: a lock is held during the report")
		}
		running, _ := w.Profiles().Running("p")
		w.wantLines("ailments when the call is back", running.Degradations)
	})
}
