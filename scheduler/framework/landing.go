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
const preBindLimit = 10 * time.Minute

// Limit is how long the call may take before it is late.
func (c Call) Limit() time.Duration {
	if c.Point == "PreBind" {
		return preBindLimit
	}
	return CallLimit
}

// Landing knows which plugins that are not built in are being called on a pod's
// way to its node. Such a call is never left behind, since nobody can tell what
// it has done: it holds up its own pod, and somebody should know of it. A nil
// Landing knows nothing.
type Landing struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	calls map[Call]time.Time
}

// NewLanding returns a Landing without a call.
func NewLanding(c clock.PassiveClock) *Landing {
	return &Landing{clock: c, calls: map[Call]time.Time{}}
}

// Overdue returns a call that is late; or nil, and when to look again.
func (l *Landing) Overdue() (late *Call, again time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	again = CallLimit
	for call, since := range l.calls {
		left := call.Limit() - l.clock.Since(since)
		if left <= 0 {
			return &call, 0
		}
		again = min(again, left)
	}
	return nil, again
}

// lands notes that a plugin is called on the pod's way to its node, until over is
// called.
func (f *Framework) lands(state fwk.CycleState, plugin, point string) (over func()) {
	ours, ok := state.(*CycleState)
	if !ok || ours == nil || ours.landing == nil || !f.foreign.Has(plugin) {
		return nothing
	}
	l, call := ours.landing, Call{plugin, point}
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
func (c *CycleState) Lands(l *Landing) { c.landing = l }
