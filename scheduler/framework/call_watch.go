package framework

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

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

// preBindLimit is how long one call of PreBind may take before it is called late:
// what it waits for, such as a volume, takes its time. It is how long upstream's
// VolumeBinding waits by default (bindTimeoutSeconds).
const preBindTimeout = 10 * time.Minute

// Limit is how long the call may take before it is late.
func (c Call) Timeout() time.Duration {
	if c.Point == "PreBind" {
		return preBindTimeout
	}
	return CallTimeout
}

// Landing knows which plugins that are not built in are being called on a pod's
// way to its node. Such a call is never left behind, since nobody can tell what
// it has done: it holds up its own pod, and somebody should know of it. A nil
// Landing knows nothing.
type BindingCalls struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	calls map[Call]time.Time
}

// NewLanding returns a Landing without a call.
func NewBindingCalls(c clock.PassiveClock) *BindingCalls {
	return &BindingCalls{clock: c, calls: map[Call]time.Time{}}
}

// Overdue returns a call that is late; or nil, and when to look again.
func (l *BindingCalls) Overdue() (late *Call, again time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	again = CallTimeout
	for call, since := range l.calls {
		left := call.Timeout() - l.clock.Since(since)
		if left <= 0 {
			return &call, 0
		}
		again = min(again, left)
	}
	return nil, again
}

// lands notes that a plugin is called on the pod's way to its node, until over is
// called.
func (f *Framework) trackBindingCall(state fwk.CycleState, plugin, point string) (over func()) {
	ours, ok := state.(*CycleState)
	if !ok || ours == nil || ours.bindingCalls == nil || !f.outOfTree.Has(plugin) {
		return noop
	}
	l, call := ours.bindingCalls, Call{plugin, point}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[call] = l.clock.Now()
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.calls, call)
	}
}

// Lands lets l know who is called from now on.
func (c *CycleState) SetBindingCalls(l *BindingCalls) { c.bindingCalls = l }

// Wait waits until something happens that other work causes: until gives a
// value or is closed. It returns nil then, and why ctx ended when that comes
// first. How work waits is handed to the rooms, as the clock is, so that a
// simulation can decide who goes on when.
type WaitFunc func(ctx context.Context, until <-chan struct{}) error

// Goroutine starts a goroutine that does work. It is how the scheduler starts work
// where it is given no other way. No other function of scheduler/ has a go
// statement: each is given one to call, so that a simulation decides what runs
// when.
func Goroutine(work func()) { go work() }

// Block is the Wait of a goroutine.
func Block(ctx context.Context, until <-chan struct{}) error {
	select {
	case <-until:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// CallIn is the call of one of f's plugins that a goroutine is in, innermost
// first: where one plugin asks another, the other. It is read from the
// goroutine's stack, as runtime.Stack prints it, so that nobody has to note each
// call of plugins that are built in. Point is the name of the plugin's outermost
// exported method there. It reports false when the goroutine is in none.
func (f *Framework) CallInStack(stack string) (call Call, found bool) {
	methods := make(map[string]string, len(f.plugins)) // what a method's symbol begins with → plugin
	for _, plugin := range f.plugins {
		methods[methodPrefix(plugin)] = plugin.Name()
	}
	for line := range strings.Lines(stack) {
		name, method := pluginMethodIn(methods, line)
		switch {
		case name == "":
			continue
		case found && name != call.Plugin:
			return call, true
		}
		if first, _ := utf8.DecodeRuneInString(method); unicode.IsUpper(first) || !found {
			call = Call{Plugin: name, Point: method}
		}
		found = true
	}
	return call, found
}

// methodIn is the plugin whose method a line of a stack is about.
func pluginMethodIn(methods map[string]string, line string) (plugin, method string) {
	for symbol, name := range methods {
		if rest, is := strings.CutPrefix(line, symbol); is {
			method, _, _ = strings.Cut(rest, "(")
			method, _, _ = strings.Cut(method, ".") // a closure
			return name, strings.TrimSpace(method)
		}
	}
	return "", ""
}

// methodsOf is what the symbol of each method of a plugin begins with.
func methodPrefix(plugin any) string {
	t := reflect.TypeOf(plugin)
	if t.Kind() == reflect.Pointer {
		return t.Elem().PkgPath() + ".(*" + t.Elem().Name() + ")."
	}
	return t.PkgPath() + "." + t.Name() + "."
}
