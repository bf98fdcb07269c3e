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
const mostTurns = 1_000_000

// The status controller may wait for anything when it hears that a profile is
// degraded, even for the pod whose plugin is late.
func TestAPodLandsWhileItsLateCallIsReported(t *testing.T) {
	amongOdds(t, func(w *world, o *odd) {
		bound := func() bool {
			page, _ := w.options.Ledger.Page("p", 0)
			return page.Totals.Bound > 0
		}
		var reported, landed atomic.Bool
		w.Profiles().WhenAilmentsChange(func(string) {
			if !reported.CompareAndSwap(false, true) {
				return
			}
			o.open()
			for range mostTurns {
				if bound() {
					landed.Store(true)
					return
				}
				runtime.Gosched()
			}
		})
		w.create(oddly("a", "PreBindPreFlight hangs once"))
		time.Sleep(time.Minute)
		synctest.Wait()
		if !reported.Load() {
			t.Fatal("the late call was not reported")
		}
		if !landed.Load() {
			t.Error("the pod did not land while its late call was reported: a lock is held during the report")
		}
		running, _ := w.Profiles().Running("p")
		w.wantLines("ailments when the call is back", running.Ailments)
	})
}
