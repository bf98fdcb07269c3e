package framework

import (
	"sync"
	"time"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"
)

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
