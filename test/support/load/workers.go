package load

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Each calls do for 0 … n-1 from so many workers, and returns the first error,
// which ends the others.
func Each(ctx context.Context, n, workers int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(n, workers) {
		group.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}

// Due is when something was to begin and when it began.
type Due struct{ Due, Began time.Time }

// Late is how long it had to wait for a free worker.
func (d Due) Late() time.Duration { return d.Began.Sub(d.Due) }

// AtRate is Each with the i-th call due i/rate seconds after the first,
// whatever became of those before it: a slow answer delays nobody but, when
// all workers wait for one, shows in Late. Who measures from Due leaves no wait
// out.
func AtRate(ctx context.Context, n, workers int, rate float64, do func(ctx context.Context, i int) error) ([]Due, error) {
	dues := make([]Due, n)
	start := time.Now()
	err := Each(ctx, n, workers, func(ctx context.Context, i int) error {
		due := start.Add(time.Duration(float64(i) / rate * float64(time.Second)))
		timer := time.NewTimer(time.Until(due))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		dues[i] = Due{Due: due, Began: time.Now()}
		return do(ctx, i)
	})
	return dues, err
}

// MedianAndRange formats values as "median (minimum to maximum)"; one value is its median.
func MedianAndRange(values []float64, unit string) string {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	text := fmt.Sprintf("%.2f%s", (sorted[(n-1)/2]+sorted[n/2])/2, unit)
	if n > 1 {
		text += fmt.Sprintf(" (%.2f to %.2f)", sorted[0], sorted[n-1])
	}
	return text
}
