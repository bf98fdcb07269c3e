// Package load creates pods on a control plane, from many workers as fast as possible or at
// a fixed rate, and observes with one watch when each is bound and that it stays so.
package load

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Each calls do for 0 … n-1 from this many workers, and returns the first error, which ends
// the others.
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

// Due is when a call was due and when it began.
type Due struct{ Due, Began time.Time }

// Late is how long it waited for a free worker.
func (d Due) Late() time.Duration { return d.Began.Sub(d.Due) }

// AtRate is Each with the i-th call due i/rate seconds after the first, whether or not those
// before it have returned: a slow call delays others only when all workers are busy, which
// Late shows. A duration measured from Due includes that wait.
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

// Client returns a client with protobuf and without a rate limit, so that the API server is
// measured and not JSON.
func Client(config *rest.Config) (kubernetes.Interface, error) {
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.QPS, config.Burst = -1, 0
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return client, nil
}

// CountEvents returns the number of Events in a namespace, through a list with limit 1 and its
// remainingItemCount.
func CountEvents(ctx context.Context, client kubernetes.Interface, namespace string) (int, error) {
	list, err := client.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, fmt.Errorf("counting events: %w", err)
	}
	n := len(list.Items)
	if list.RemainingItemCount != nil {
		n += int(*list.RemainingItemCount)
	}
	return n, nil
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
