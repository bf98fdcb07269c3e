package queue

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/framework"
)

// turnEnv is a queue in which a swap of profile p requeues many pods in slices of two. The time
// between two slices is shorter than Pop takes to look again after it was woken, and PreEnqueue
// takes longer than that.
type turnEnv struct {
	*testEnv
	swapped chan struct{}
	// calls counts those of PreEnqueue.
	calls atomic.Int64
}

// newTurnEnv returns a turnEnv whose swap has begun.
func newTurnEnv(t *testing.T) *turnEnv {
	w := &turnEnv{testEnv: newTestEnv(t), swapped: make(chan struct{})}
	w.sliceSize = 2
	w.wait = func(ctx context.Context, until <-chan struct{}) error {
		err := framework.Block(ctx, until)
		if until == w.ready {
			time.Sleep(time.Microsecond)
		}
		return err
	}
	w.addManyRejected(20)
	w.clock.Step(time.Minute)
	rules := w.rules
	rules.PreEnqueue = func(context.Context, *v1.Pod, string) string {
		w.calls.Add(1)
		time.Sleep(time.Millisecond)
		return ""
	}
	rules.Key.Plugins = map[string]string{"Fit": "two"}
	go func() { defer close(w.swapped); w.SetProfile(w.ctx, "p", &rules) }()
	synctest.Wait() // in the first call of PreEnqueue
	return w
}

// Pop that comes while a slice of a swap is requeued pops before the next slice is.
func TestASwapGivesPopATurnAfterEachSlice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTurnEnv(t)
		for slice := range 10 {
			before := w.calls.Load()
			if w.Pop(w.ctx) == nil {
				t.Fatal("Pop found no pod")
			}
			// One call for the second pod of the slice, and one that may have begun since.
			if n := w.calls.Load() - before; n > 2 {
				t.Errorf("slice %d: Pop returned after %d more calls of PreEnqueue, want 2 at most", slice, n)
			}
			synctest.Wait()
		}
		<-w.swapped
		w.check()
	})
}

// A swap that waits for Pop goes on when Pop ends without a pod.
func TestASwapDoesNotWaitForPopThatEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTurnEnv(t)
		ctx, stop := context.WithCancel(w.ctx)
		go w.Pop(ctx)
		synctest.Wait()
		stop()
		<-w.swapped
		w.check()
	})
}
