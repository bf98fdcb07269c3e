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

// CallTimeout is how long the scheduler waits for one call of an out-of-tree
// plugin.
const CallTimeout = 10 * time.Second

// CallWatch tracks the current call of an out-of-tree plugin in one attempt and
// when it began, so that the caller can abandon a call that does not return.
// In-tree plugins are not tracked. A nil CallWatch tracks nothing. It is safe
// for concurrent use.
type CallWatch struct {
	clock clock.PassiveClock

	mu   sync.Mutex
	call timedCall
	// lastTransition is when a tracked call last began or ended.
	lastTransition time.Time
	// abandoned says that the caller of Await went on without the attempt. The
	// attempt's goroutine then ends as soon as the call returns, unless
	// keepsRunning: then the attempt goes on to its own end.
	abandoned, keepsRunning bool
	ended                   bool
}

// timedCall is a call and when it began. The zero value is no call.
type timedCall struct {
	Call
	since time.Time
}

// NewCallWatch returns the CallWatch of an attempt that has made no call yet.
func NewCallWatch(c clock.PassiveClock) *CallWatch {
	return &CallWatch{clock: c, lastTransition: c.Now()}
}

// LastTransition is when a tracked call last began or ended, or when the
// attempt began.
func (w *CallWatch) LastTransition() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lastTransition
}

// CallTimeoutError says that a plugin did not return in time. The attempt
// fails; the scheduling loop goes on.
type CallTimeoutError struct{ Call }

func (e *CallTimeoutError) Error() string {
	return fmt.Sprintf("plugin %q did not come back from %s within %v", e.Plugin, e.Point, e.Timeout())
}

// AbandonedAttempt describes an attempt that was abandoned, and the call that
// did not return.
type AbandonedAttempt struct {
	Call
	// StillRunning says that the attempt goes on in its goroutine, because the
	// call was at Reserve, Unreserve or Permit: what the plugin reserved for
	// the pod must still be released.
	StillRunning bool
}

// abandonIfLate abandons the attempt if its current call has run for
// CallTimeout; the result of the call is then ignored. Otherwise it returns
// when to check again.
func (w *CallWatch) abandonIfLate() (left *AbandonedAttempt, next time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended || w.call.since.IsZero() {
		return nil, CallTimeout
	}
	if age := w.clock.Since(w.call.since); age < CallTimeout {
		return nil, CallTimeout - age
	}
	w.abandoned = true
	w.keepsRunning = w.call.Point == "Reserve" || w.call.Point == "Unreserve" || w.call.Point == "Permit" || fault.LateBelieved
	return &AbandonedAttempt{w.call.Call, w.keepsRunning}, 0
}

// Waiter is the way in which Await waits.
type Waiter struct {
	Wait  WaitFunc
	Clock clock.WithDelayedExecution
}

// Await waits until done is closed, or until a call of the attempt runs for
// CallTimeout. It returns nil in the first case; in the second the attempt is
// abandoned.
func (w *CallWatch) Await(waiter Waiter, done <-chan struct{}) *AbandonedAttempt {
	for next := CallTimeout; ; {
		// Not derived from a context of the caller: its end is no reason to
		// abandon a plugin that still works.
		ctx, cancel := context.WithCancel(context.Background())
		timer := waiter.Clock.AfterFunc(next, cancel)
		err := waiter.Wait(ctx, done)
		timer.Stop()
		cancel()
		if err == nil {
			return nil
		}
		var left *AbandonedAttempt
		if left, next = w.abandonIfLate(); left != nil {
			return left
		}
	}
}

// Watch tracks a call of a plugin that does not belong to an attempt.
func (w *CallWatch) Watch(c Call, call func()) {
	outer := w.beginCall(c.Plugin, c.Point)
	defer w.endCall(outer)
	call()
}

// End ends the attempt and reports whether it was abandoned before.
func (w *CallWatch) End() (left bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	return w.abandoned
}

// beginCall starts a call and returns the outer call in which it was made.
func (w *CallWatch) beginCall(plugin, point string) (outer timedCall) {
	w.mu.Lock()
	defer w.mu.Unlock()
	outer = w.call
	w.lastTransition = w.clock.Now()
	w.call = timedCall{Call{plugin, point}, w.lastTransition}
	return outer
}

// endCall ends a call and reports whether the attempt was abandoned meanwhile.
// An abandoned attempt that does not keep running ends its goroutine here,
// because the loop already uses the objects that the attempt used.
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

// callWatchOf returns the CallWatch of the attempt that state belongs to, or
// nil.
func callWatchOf(state fwk.CycleState) *CallWatch {
	if own, ok := state.(*CycleState); ok && own != nil {
		return own.callWatch
	}
	return nil
}

// SetCallWatch sets the CallWatch of the attempt.
func (c *CycleState) SetCallWatch(w *CallWatch) { c.callWatch = w }

// HasOutOfTreePlugins reports whether any plugin is not in-tree.
func (f *Framework) HasOutOfTreePlugins() bool { return len(f.outOfTree) > 0 }

// beginCall is CallWatch.beginCall for out-of-tree plugins, and nothing for
// others or without a CallWatch.
func (f *Framework) beginCall(w *CallWatch, plugin, point string) (outer timedCall) {
	if w != nil && f.outOfTree.Has(plugin) {
		return w.beginCall(plugin, point)
	}
	return timedCall{}
}

// endCall is the counterpart of Framework.beginCall.
func (f *Framework) endCall(w *CallWatch, plugin string, outer timedCall) (late bool) {
	return w != nil && f.outOfTree.Has(plugin) && w.endCall(outer)
}

// preBindTimeout is how long one call of PreBind may take. It may wait for a
// volume, so the limit is the default of kube-scheduler's VolumeBinding
// (bindTimeoutSeconds).
const preBindTimeout = 10 * time.Minute

// Timeout is how long the call may take.
func (c Call) Timeout() time.Duration {
	if c.Point == "PreBind" {
		return preBindTimeout
	}
	return CallTimeout
}

// BindingCalls tracks the calls of out-of-tree plugins in one pod's binding
// cycle. The scheduler never abandons such a call, since it cannot know what
// the call has done; a call that takes too long delays its own pod and is
// reported. A nil BindingCalls tracks nothing. It is safe for concurrent use.
type BindingCalls struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	calls map[Call]time.Time
}

// NewBindingCalls returns a BindingCalls without calls.
func NewBindingCalls(c clock.PassiveClock) *BindingCalls {
	return &BindingCalls{clock: c, calls: map[Call]time.Time{}}
}

// Overdue returns a call that exceeds its timeout, or nil and when to check
// again.
func (l *BindingCalls) Overdue() (late *Call, next time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next = CallTimeout
	for call, since := range l.calls {
		left := call.Timeout() - l.clock.Since(since)
		if left <= 0 {
			return &call, 0
		}
		next = min(next, left)
	}
	return nil, next
}

// trackBindingCall tracks a call of an out-of-tree plugin until over is called.
func (f *Framework) trackBindingCall(state fwk.CycleState, plugin, point string) (end func()) {
	own, ok := state.(*CycleState)
	if !ok || own == nil || own.bindingCalls == nil || !f.outOfTree.Has(plugin) {
		return noop
	}
	l, call := own.bindingCalls, Call{plugin, point}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[call] = l.clock.Now()
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.calls, call)
	}
}

// SetBindingCalls sets the BindingCalls that track the calls of this attempt.
func (c *CycleState) SetBindingCalls(l *BindingCalls) { c.bindingCalls = l }

// WaitFunc waits until a value arrives on until or until is closed, and then
// returns nil. If ctx ends first it returns the cause. It is injected, like the
// clock, so that a simulation decides which waiter continues first.
type WaitFunc func(ctx context.Context, until <-chan struct{}) error

// Goroutine runs work in a new goroutine. It is the default where no other way
// to start work is injected, and the only go statement of scheduler/: a
// simulation injects its own, and decides what runs when.
func Goroutine(work func()) { go work() }

// Block is the WaitFunc that blocks the goroutine.
func Block(ctx context.Context, until <-chan struct{}) error {
	select {
	case <-until:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// CallInStack returns the call of one of f's plugins that a goroutine is in,
// from its stack as runtime.Stack prints it. If one plugin called another, it
// is the inner plugin; Point is the outermost exported method of that plugin on
// the stack. It finds calls of in-tree plugins, which no CallWatch tracks.
// found is false if no plugin is on the stack.
func (f *Framework) CallInStack(stack string) (call Call, found bool) {
	methods := make(map[string]string, len(f.plugins)) // by the prefix of the plugin's methods
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

// pluginMethodIn returns the plugin and the method that a line of a stack
// names.
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

// methodPrefix is the prefix that all methods of a plugin have on a stack.
func methodPrefix(plugin any) string {
	t := reflect.TypeOf(plugin)
	if t.Kind() == reflect.Pointer {
		return t.Elem().PkgPath() + ".(*" + t.Elem().Name() + ")."
	}
	return t.PkgPath() + "." + t.Name() + "."
}
