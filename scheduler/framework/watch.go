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
const CallLimit = 10 * time.Second

// Watch knows which plugin is being called in an attempt, and since when, so
// that one that does not come back can be left behind. Plugins that are built
// in are not watched. A nil Watch watches nobody.
type Watch struct {
	clock clock.PassiveClock

	mu   sync.Mutex
	call watched
	// moved is when a call last began or ended.
	moved time.Time
	// left says that the one who waited goes on without the attempt, which ends
	// as soon as the call is back; unless it is beside, and ends in its own time.
	left, beside bool
	over         bool
}

// watched is a call and when it began; zero: nobody is being called.
type watched struct {
	Call
	since time.Time
}

// NewWatch returns a Watch of an attempt that calls nobody yet.
func NewWatch(c clock.PassiveClock) *Watch { return &Watch{clock: c, moved: c.Now()} }

// Since is when a call of a plugin that is watched last began or ended in the
// attempt, or the attempt began: for so long it has been where it is.
func (w *Watch) Since() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.moved
}

// LateError says that a plugin did not come back in time. The attempt fails;
// the loop goes on.
type LateError struct{ Call }

func (e *LateError) Error() string {
	return fmt.Sprintf("plugin %q did not come back from %s within %v", e.Plugin, e.Point, e.Limit())
}

// Left is what became of an attempt that took too long.
type Left struct {
	Call
	// Beside says that the attempt goes on: the plugin holds what it claimed for
	// the pod, or was asked whether to wait.
	Beside bool
}

// giveUp leaves the attempt behind if the call that it is in takes too long.
// Otherwise it says when to look again. Of what the call ends with afterwards
// nothing counts.
func (w *Watch) giveUp() (left *Left, again time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || w.call.since.IsZero() {
		return nil, CallLimit
	}
	if age := w.clock.Since(w.call.since); age < CallLimit {
		return nil, CallLimit - age
	}
	w.left = true
	w.beside = w.call.Point == "Reserve" || w.call.Point == "Unreserve" || w.call.Point == "Permit" || fault.LateBelieved
	return &Left{w.call.Call, w.beside}, 0
}

// Waiting is how work is waited for.
type Waiting struct {
	Wait  Wait
	Clock clock.WithDelayedExecution
}

// Await waits until the attempt is done, or a call in it has taken too long. It
// returns nil when it is done; else the attempt is left behind.
func (w *Watch) Await(how Waiting, done <-chan struct{}) *Left {
	for again := CallLimit; ; {
		// The end of whoever waits is no reason to let go of a plugin that works.
		ctx, cancel := context.WithCancel(context.Background())
		timer := how.Clock.AfterFunc(again, cancel)
		err := how.Wait(ctx, done)
		timer.Stop()
		cancel()
		if err == nil {
			return nil
		}
		var left *Left
		if left, again = w.giveUp(); left != nil {
			return left
		}
	}
}

// Calls lets w watch a call of a plugin that is not one of an attempt.
func (w *Watch) Calls(c Call, call func()) {
	outer := w.enter(c.Plugin, c.Point)
	defer w.leave(outer)
	call()
}

// End says that the attempt is over, and reports whether it was left behind.
func (w *Watch) End() (left bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	return w.left
}

// enter notes that a plugin is called, and returns the call that this one is
// made in.
func (w *Watch) enter(plugin, point string) (outer watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	outer = w.call
	w.moved = w.clock.Now()
	w.call = watched{Call{plugin, point}, w.moved}
	return outer
}

// leave notes that the plugin came back, and reports whether it was too late.
// An attempt that was left behind ends here: nothing that it touches is its own
// any more.
func (w *Watch) leave(outer watched) (late bool) {
	w.mu.Lock()
	late = w.left
	ends := late && !w.beside
	w.call, w.moved = outer, w.clock.Now()
	w.mu.Unlock()
	if ends {
		runtime.Goexit()
	}
	return late
}

// watch returns the Watch of the attempt that state belongs to.
func watch(state fwk.CycleState) *Watch {
	if ours, ok := state.(*CycleState); ok && ours != nil {
		return ours.watch
	}
	return nil
}

// Watch lets w watch the attempt whose state c is.
func (c *CycleState) Watch(w *Watch) { c.watch = w }

// Watched says whether the Framework has plugins that have to be watched.
func (f *Framework) Watched() bool { return len(f.foreign) > 0 }

// enter notes that a plugin is called, unless it is built in or nobody watches.
func (f *Framework) enter(w *Watch, plugin, point string) (outer watched) {
	if w != nil && f.foreign.Has(plugin) {
		return w.enter(plugin, point)
	}
	return watched{}
}

// leave notes that it came back.
func (f *Framework) leave(w *Watch, plugin string, outer watched) (late bool) {
	return w != nil && f.foreign.Has(plugin) && w.leave(outer)
}
