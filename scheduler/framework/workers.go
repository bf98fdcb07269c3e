package framework

import (
	"context"
	"sync"
)

// ForEach calls do for each item, in their order, from at most that many goroutines of r at a
// time. It returns when no call runs any more. After ctx has ended it begins no call.
func ForEach[T any](ctx context.Context, r Runtime, most int, items []T, do func(T)) {
	if len(items) == 0 {
		return
	}
	w := &workers[T]{done: make(chan struct{}), running: min(most, len(items)), items: items}
	for range w.running {
		r.Go(func() {
			for item, ok := w.next(ctx); ok; item, ok = w.next(ctx) {
				do(item)
			}
			w.end()
		})
	}
	// The workers end with ctx, so that this wait ends, too.
	_ = r.Wait(context.WithoutCancel(ctx), w.done)
}

// workers are the goroutines of one ForEach.
type workers[T any] struct {
	// done is closed when all have ended.
	done chan struct{}

	mu      sync.Mutex
	running int
	items   []T // that are left
}

// next returns the next item; false when there is none, or ctx has ended.
func (w *workers[T]) next(ctx context.Context) (item T, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.items) == 0 || ctx.Err() != nil {
		return item, false
	}
	item = w.items[0]
	w.items = w.items[1:]
	return item, true
}

// end records that a worker has ended.
func (w *workers[T]) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running--; w.running == 0 {
		close(w.done)
	}
}
