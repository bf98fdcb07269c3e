package devices

import (
	"context"
	"slices"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/berthdev/berth/scheduler/framework"
)

// pollInterval is the time between two calls of done without an event. kube-scheduler
// only polls, with the same interval.
const pollInterval = 5 * time.Second

// AwaitClaims calls done until it returns true or an error: every 5 seconds, and when
// one of claims changes. The error is that of done, the cause of ctx, or
// context.DeadlineExceeded after limit.
func (d *Devices) AwaitClaims(ctx context.Context, limit time.Duration, claims []*resourceapi.ResourceClaim, done func() (bool, error)) error {
	ctx, end := d.limit(ctx, limit)
	defer end()
	w := &waiter{signal: make(chan struct{}, 1)}
	defer d.waiters.add(w, claims)()
	for ctx.Err() == nil {
		if ok, err := done(); err != nil || ok {
			return err
		}
		again := d.options.Clock.AfterFunc(pollInterval, w.wake)
		err := d.options.Wait(ctx, w.signal)
		again.Stop()
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// limit returns a context that ends after a time by the clock of d. end frees what it holds.
func (d *Devices) limit(ctx context.Context, after time.Duration) (limited context.Context, end func()) {
	limited, cancel := context.WithCancelCause(ctx)
	timer := d.options.Clock.AfterFunc(after, func() { cancel(context.DeadlineExceeded) })
	return limited, func() {
		timer.Stop()
		cancel(nil)
	}
}

// sleep waits on the clock. The error is the cause of ctx's end.
func (d *Devices) sleep(ctx context.Context, duration time.Duration) error {
	w := &waiter{signal: make(chan struct{}, 1)}
	timer := d.options.Clock.AfterFunc(duration, w.wake)
	defer timer.Stop()
	return d.options.Wait(ctx, w.signal)
}

// waiter wakes one call of AwaitClaims.
type waiter struct{ signal chan struct{} }

func (w *waiter) wake() { framework.Notify(w.signal) }

// waiters are woken when a claim changes. It is safe for concurrent use.
type waiters struct {
	mu sync.Mutex
	// byClaim is by the claim's namespace/name.
	byClaim map[string][]*waiter
}

// add makes a change of one of claims wake w, until remove is called.
func (s *waiters) add(w *waiter, claims []*resourceapi.ResourceClaim) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byClaim == nil {
		s.byClaim = map[string][]*waiter{}
	}
	for _, claim := range claims {
		s.byClaim[keyOf(claim)] = append(s.byClaim[keyOf(claim)], w)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, claim := range claims {
			key := keyOf(claim)
			s.byClaim[key] = slices.DeleteFunc(s.byClaim[key], func(other *waiter) bool { return other == w })
			if len(s.byClaim[key]) == 0 {
				delete(s.byClaim, key)
			}
		}
	}
}

func (s *waiters) wake(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.byClaim[key] {
		w.wake()
	}
}
