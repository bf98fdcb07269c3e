package framework

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"
)

const (
	// CallTimeout is how long the scheduler waits for one call of an out-of-tree plugin.
	CallTimeout = 10 * time.Second
	// preBindTimeout is how long one call of PreBind may take. It may wait for a volume,
	// so the limit is the default of kube-scheduler's VolumeBinding (bindTimeoutSeconds).
	preBindTimeout = 10 * time.Minute
)

// Timeout is how long the call may take.
func (c Call) Timeout() time.Duration {
	if c.Point == "PreBind" {
		return preBindTimeout
	}
	return CallTimeout
}

// CallTimeoutError says that a plugin did not return in time. The attempt fails; the
// scheduling loop goes on.
type CallTimeoutError struct{ Call }

func (e *CallTimeoutError) Error() string {
	return fmt.Sprintf("plugin %q did not come back from %s within %v", e.Plugin, e.Point, e.Timeout())
}

// WaitFunc waits until a value arrives on until or until is closed, and then returns nil.
// If ctx ends first it returns the cause. It is injected, like the clock, so that a
// simulation decides which waiter continues first.
type WaitFunc func(ctx context.Context, until <-chan struct{}) error

// Goroutine runs work in a new goroutine. It is the default where no other way to start
// work is injected, and the only go statement of scheduler/: a simulation injects its
// own, and decides what runs when.
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

// Notify puts a value into a channel that has room for one, unless it has one already.
func Notify(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}

// Runtime is how concurrent work is started, awaited and timed.
type Runtime struct {
	Clock clock.WithDelayedExecution
	Go    func(work func())
	Wait  WaitFunc
}

// WaitFor waits until until is closed, for limit at most.
func (r Runtime) WaitFor(ctx context.Context, until <-chan struct{}, limit time.Duration) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := r.Clock.AfterFunc(limit, func() { cancel(fmt.Errorf("not within %v", limit)) })
	defer timer.Stop()
	return r.Wait(ctx, until)
}

// CallWatch is work that calls plugins and that others can go on without when a plugin
// does not return: an attempt, a binding cycle, one call, the build of a profile. It
// tracks the open calls of out-of-tree plugins and when they began. A nil CallWatch
// tracks nothing. It is safe for concurrent use.
type CallWatch struct {
	runtime Runtime
	// done is closed when the work has ended.
	done chan struct{}
	// stopped is set when the work was abandoned and must call no plugin any more. Its
	// results do not count, and others use the objects that it used.
	stopped atomic.Pointer[CallTimeoutError]

	mu    sync.Mutex
	calls []timedCall // that have not returned, oldest first
	// lastTransition is when a tracked call last began or ended.
	lastTransition   time.Time
	abandoned, ended bool
	// goexitStack is the stack where a plugin ended the goroutine of the work; nil without.
	goexitStack []byte
	whenEnded   func()
}

// timedCall is a call and when it began.
type timedCall struct {
	Call
	since time.Time
}

// NewCallWatch returns the CallWatch of work that has made no call yet.
func NewCallWatch(r Runtime) *CallWatch {
	return &CallWatch{runtime: r, done: make(chan struct{}), lastTransition: r.Clock.Now()}
}

// NewCallWatch returns the CallWatch of work that calls f's plugins.
func (f *Framework) NewCallWatch() *CallWatch { return NewCallWatch(f.runtime()) }

// Go runs the work in a goroutine of its own.
func (w *CallWatch) Go(work func()) {
	w.runtime.Go(func() {
		defer w.End()
		recordGoexit(&w.goexitStack, work)
	})
}

// Isolate runs the work in a goroutine of its own and waits for it, however long a call takes. It
// returns the error of a plugin that ended the goroutine, and nil if the work returned.
func (w *CallWatch) Isolate(work func()) *PanicError {
	defer w.End()
	w.goexitStack = w.runtime.isolate(work)
	return w.Goexit(Call{})
}

// Goexit returns the error of a plugin that ended the goroutine of the work: that of the
// innermost tracked call, or of call where none is tracked. It returns nil if the work
// returned. It is called after the work has ended.
func (w *CallWatch) Goexit(call Call) *PanicError {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.goexitStack == nil {
		return nil
	}
	if len(w.calls) > 0 {
		call = w.calls[len(w.calls)-1].Call
	}
	return &PanicError{Plugin: call.Plugin, Point: call.Point, Stack: w.goexitStack}
}

// End ends the work. Go calls it when the work returns.
func (w *CallWatch) End() {
	w.mu.Lock()
	w.ended = true
	whenEnded := w.whenEnded
	w.mu.Unlock()
	close(w.done)
	if whenEnded != nil {
		whenEnded()
	}
}

// Ended reports whether the work has ended.
func (w *CallWatch) Ended() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ended
}

// Done is closed when the work has ended.
func (w *CallWatch) Done() <-chan struct{} { return w.done }

// WhenEnded makes End call f, without a lock. If the work has ended already, f runs in a
// goroutine of its own.
func (w *CallWatch) WhenEnded(f func()) {
	w.mu.Lock()
	ended := w.ended
	w.whenEnded = f
	w.mu.Unlock()
	if ended {
		w.runtime.Go(f)
	}
}

// Wait waits until the work has ended, for limit at most. After an error the work may
// still run.
func (w *CallWatch) Wait(ctx context.Context, limit time.Duration) error {
	return w.runtime.WaitFor(ctx, w.done, limit)
}

// AbandonedAttempt describes an attempt that was abandoned, and the call that did not
// return.
type AbandonedAttempt struct {
	Call
	// StillRunning says that the attempt goes on in its goroutine, because the call was
	// at Reserve, Unreserve or Permit: what the plugin reserved for the pod must still be
	// released.
	StillRunning bool
}

// Await waits until the work has ended, or until one call has run for CallTimeout. It
// returns nil in the first case; in the second the work is abandoned.
func (w *CallWatch) Await() *AbandonedAttempt {
	for next := CallTimeout; ; {
		// Not derived from a context of the caller: its end is no reason to abandon a
		// plugin that still works.
		if w.Wait(context.Background(), next) == nil {
			return nil
		}
		var left *AbandonedAttempt
		if left, next = w.abandonIfLate(); left != nil {
			return left
		}
	}
}

// abandonIfLate abandons the work if the innermost call has run for CallTimeout.
// Otherwise it returns when to check again.
func (w *CallWatch) abandonIfLate() (left *AbandonedAttempt, next time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended || len(w.calls) == 0 {
		return nil, CallTimeout
	}
	call := w.calls[len(w.calls)-1]
	if age := w.runtime.Clock.Since(call.since); age < CallTimeout {
		return nil, CallTimeout - age
	}
	w.abandoned = true
	keepsRunning := call.Point == "Reserve" || call.Point == "Unreserve" || call.Point == "Permit"
	if !keepsRunning {
		w.stopped.Store(&CallTimeoutError{call.Call})
	}
	return &AbandonedAttempt{call.Call, keepsRunning}, 0
}

// isAbandoned reports whether others went on without the work.
func (w *CallWatch) isAbandoned() bool {
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.abandoned
}

// Overdue returns a call that exceeds its timeout, or nil and when to check again. It is
// for work that is never abandoned: nobody can know what a call of a binding cycle has
// done.
func (w *CallWatch) Overdue() (late *Call, next time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next = CallTimeout
	for _, call := range w.calls {
		left := call.Timeout() - w.runtime.Clock.Since(call.since)
		if left <= 0 {
			return &call.Call, 0
		}
		next = min(next, left)
	}
	return nil, next
}

// LastTransition is when a tracked call last began or ended, or when the work began.
func (w *CallWatch) LastTransition() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lastTransition
}

// Watch tracks a call.
func (w *CallWatch) Watch(c Call, call func()) {
	w.begin(c)
	defer w.end(c)
	call()
}

func (w *CallWatch) begin(c Call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lastTransition = w.runtime.Clock.Now()
	w.calls = append(w.calls, timedCall{c, w.lastTransition})
}

// end ends the innermost call of c, and reports whether the work was abandoned.
func (w *CallWatch) end(c Call) (late bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, call := range slices.Backward(w.calls) {
		if call.Call == c {
			w.calls, w.lastTransition = slices.Delete(w.calls, i, i+1), w.runtime.Clock.Now()
			break
		}
	}
	return w.abandoned
}

// callWatchOf returns the CallWatch of the attempt, of the group's or the pod's, or of the binding
// cycle that state belongs to, or nil.
func callWatchOf(state fwk.CycleState) *CallWatch {
	own, ok := state.(*CycleState)
	switch {
	case !ok || own == nil:
		return nil
	case own.group != nil:
		return own.group.callWatch
	}
	return own.callWatch
}

// SetCallWatch sets the CallWatch of the attempt or binding cycle. That of a group's state tracks
// the calls for all its pods, as long as the group's cycle decides them.
func (c *CycleState) SetCallWatch(w *CallWatch) { c.callWatch = w }

// CheckAbandoned returns a *CallTimeoutError if the attempt of state was abandoned and
// calls no plugin any more. Its caller then returns at once: the loop already changes
// the snapshot.
func CheckAbandoned(state fwk.CycleState) error {
	if s := abandonedStatus(callWatchOf(state)); s != nil {
		return s.AsError()
	}
	return nil
}

// abandonedStatus is the status of a plugin in an attempt that was abandoned, or nil.
func abandonedStatus(w *CallWatch) *fwk.Status {
	if w == nil {
		return nil
	}
	if late := w.stopped.Load(); late != nil {
		return fwk.AsStatus(late).WithPlugin(late.Plugin)
	}
	return nil
}
