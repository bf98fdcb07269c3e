package framework

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/fault"
)

// CallLimit is how long one call of a plugin that is not built in may take:
// nobody waits for it any longer.
const CallTimeout = 10 * time.Second

// Watch knows which plugin is being called in an attempt, and since when, so
// that one that does not come back can be left behind. Plugins that are built
// in are not watched. A nil Watch watches nobody.
type CallWatch struct {
	clock clock.PassiveClock

	mu   sync.Mutex
	call timedCall
	// moved is when a call last began or ended.
	lastTransition time.Time
	// left says that the one who waited goes on without the attempt, which ends
	// as soon as the call is back; unless it is beside, and ends in its own time.
	abandoned, keepsRunning bool
	over                    bool
}

// watched is a call and when it began; zero: nobody is being called.
type timedCall struct {
	Call
	since time.Time
}

// NewWatch returns a Watch of an attempt that calls nobody yet.
func NewCallWatch(c clock.PassiveClock) *CallWatch {
	return &CallWatch{clock: c, lastTransition: c.Now()}
}

// Since is when a call of a plugin that is watched last began or ended in the
// attempt, or the attempt began: for so long it has been where it is.
func (w *CallWatch) LastTransition() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lastTransition
}

// LateError says that a plugin did not come back in time. The attempt fails;
// the loop goes on.
type CallTimeoutError struct{ Call }

func (e *CallTimeoutError) Error() string {
	return fmt.Sprintf("plugin %q did not come back from %s within %v", e.Plugin, e.Point, e.Timeout())
}

// Left is what became of an attempt that took too long.
type AbandonedAttempt struct {
	Call
	// Beside says that the attempt goes on: the plugin holds what it claimed for
	// the pod, or was asked whether to wait.
	StillRunning bool
}

// giveUp leaves the attempt behind if the call that it is in takes too long.
// Otherwise it says when to look again. Of what the call ends with afterwards
// nothing counts.
func (w *CallWatch) abandonIfLate() (left *AbandonedAttempt, again time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || w.call.since.IsZero() {
		return nil, CallTimeout
	}
	if age := w.clock.Since(w.call.since); age < CallTimeout {
		return nil, CallTimeout - age
	}
	w.abandoned = true
	w.keepsRunning = w.call.Point == "Reserve" || w.call.Point == "Unreserve" || w.call.Point == "Permit" || fault.LateBelieved
	return &AbandonedAttempt{w.call.Call, w.keepsRunning}, 0
}

// Waiting is how work is waited for.
type Waiter struct {
	Wait  WaitFunc
	Clock clock.WithDelayedExecution
}

// Await waits until the attempt is done, or a call in it has taken too long. It
// returns nil when it is done; else the attempt is left behind.
func (w *CallWatch) Await(how Waiter, done <-chan struct{}) *AbandonedAttempt {
	for again := CallTimeout; ; {
		// The end of whoever waits is no reason to let go of a plugin that works.
		ctx, cancel := context.WithCancel(context.Background())
		timer := how.Clock.AfterFunc(again, cancel)
		err := how.Wait(ctx, done)
		timer.Stop()
		cancel()
		if err == nil {
			return nil
		}
		var left *AbandonedAttempt
		if left, again = w.abandonIfLate(); left != nil {
			return left
		}
	}
}

// Calls lets w watch a call of a plugin that is not one of an attempt.
func (w *CallWatch) Watch(c Call, call func()) {
	outer := w.beginCall(c.Plugin, c.Point)
	defer w.endCall(outer)
	call()
}

// End says that the attempt is over, and reports whether it was left behind.
func (w *CallWatch) End() (left bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	return w.abandoned
}

// enter notes that a plugin is called, and returns the call that this one is
// made in.
func (w *CallWatch) beginCall(plugin, point string) (outer timedCall) {
	w.mu.Lock()
	defer w.mu.Unlock()
	outer = w.call
	w.lastTransition = w.clock.Now()
	w.call = timedCall{Call{plugin, point}, w.lastTransition}
	return outer
}

// leave notes that the plugin came back, and reports whether it was too late.
// An attempt that was left behind ends here: nothing that it touches is its own
// any more.
func (w *CallWatch) endCall(outer timedCall) (late bool) {
	w.mu.Lock()
	late = w.abandoned
	ends := late && !w.keepsRunning
	w.call, w.lastTransition = outer, w.clock.Now()
	w.mu.Unlock()
	if ends {
		runtime.Goexit()
	}
	return late
}

// watch returns the Watch of the attempt that state belongs to.
func callWatchOf(state fwk.CycleState) *CallWatch {
	if ours, ok := state.(*CycleState); ok && ours != nil {
		return ours.callWatch
	}
	return nil
}

// Watch lets w watch the attempt whose state c is.
func (c *CycleState) SetCallWatch(w *CallWatch) { c.callWatch = w }

// Watched says whether the Framework has plugins that have to be watched.
func (f *Framework) HasOutOfTreePlugins() bool { return len(f.outOfTree) > 0 }

// enter notes that a plugin is called, unless it is built in or nobody watches.
func (f *Framework) beginCall(w *CallWatch, plugin, point string) (outer timedCall) {
	if w != nil && f.outOfTree.Has(plugin) {
		return w.beginCall(plugin, point)
	}
	return timedCall{}
}

// leave notes that it came back.
func (f *Framework) endCall(w *CallWatch, plugin string, outer timedCall) (late bool) {
	return w != nil && f.outOfTree.Has(plugin) && w.endCall(outer)
}
