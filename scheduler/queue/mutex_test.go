package queue

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// A goroutine that waits for the lock while a slice is requeued gets it before the next few pods
// do.
func TestOthersLockTheQueueBetweenThePodsOfASlice(t *testing.T) {
	// With one processor nothing else runs unless the walk lets it.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	w := newTestEnv(t)
	w.addManyRejected(defaultSliceSize)
	rules := w.rules
	rules.Key.Plugins = map[string]string{"Fit": "two"}
	var others sync.WaitGroup
	var locked atomic.Bool
	started, calls := false, 0
	rules.Less = func(a, b fwk.QueuedEntityInfo) bool { // called with the lock held
		if !started {
			started = true
			others.Go(func() { w.Counts("p"); locked.Store(true) })
			for w.mu.waiting.Load() == 0 {
				runtime.Gosched()
			}
		}
		return byPriority(a, b)
	}
	rules.PreEnqueue = func(context.Context, *v1.Pod, string) string {
		if started && !locked.Load() {
			calls++
		}
		return ""
	}
	w.SetProfile(w.ctx, "p", &rules)
	others.Wait()
	// Every 61st time, runtime.Gosched lets the walk itself go on.
	if !started || calls > 3 {
		t.Errorf("pods were compared: %v; %d more were requeued before another goroutine had the lock, want 3 at most", started, calls)
	}
	w.check()
}
