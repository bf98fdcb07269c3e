package load

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// Bind is the node of a pod, and when it was observed.
type Bind struct {
	UID  types.UID
	Node string
	Seen time.Time
}

// Bound records pods that get a node, through a watch of such pods. Its methods are safe for
// concurrent use.
type Bound struct {
	stop context.CancelFunc

	mu      sync.Mutex
	binds   map[string]Bind // namespace/name → first bind
	faults  []error
	changed chan struct{} // closed and replaced at every bind and fault
}

// WatchBound records the pods of schedulerName in all namespaces that are bound from now on,
// until ctx ends or Stop.
func WatchBound(ctx context.Context, client kubernetes.Interface, schedulerName string) (*Bound, error) {
	list, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	selector := "spec.nodeName!=,spec.schedulerName=" + schedulerName
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = selector
			return client.CoreV1().Pods(metav1.NamespaceAll).Watch(ctx, options)
		},
	})
	if err != nil {
		stop()
		return nil, fmt.Errorf("watching pods: %w", err)
	}
	b := &Bound{stop: stop, binds: map[string]Bind{}, changed: make(chan struct{})}
	go b.run(ctx, watcher.ResultChan())
	return b, nil
}

// Stop ends the watch; the records stay.
func (b *Bound) Stop() { b.stop() }

func (b *Bound) run(ctx context.Context, events <-chan watch.Event) {
	for event := range events {
		now := time.Now()
		pod, ok := event.Object.(*corev1.Pod)
		b.mu.Lock()
		switch {
		case event.Type == watch.Error:
			b.fault(fmt.Errorf("watching bound pods: %w", apierrors.FromObject(event.Object)))
		case ok && event.Type != watch.Deleted:
			b.record(pod, now)
		}
		b.mu.Unlock()
	}
	if ctx.Err() == nil {
		b.mu.Lock()
		b.fault(errors.New("the watch of bound pods ended"))
		b.mu.Unlock()
	}
}

// record records one version of a bound pod.
func (b *Bound) record(pod *corev1.Pod, now time.Time) {
	key := pod.Namespace + "/" + pod.Name
	first, known := b.binds[key]
	switch {
	case known && first.UID == pod.UID && first.Node == pod.Spec.NodeName:
		// another version of a known bind
	case known && first.UID == pod.UID:
		b.fault(fmt.Errorf("pod %s was bound twice: to %s, then to %s", key, first.Node, pod.Spec.NodeName))
	default:
		b.binds[key] = Bind{UID: pod.UID, Node: pod.Spec.NodeName, Seen: now}
		b.signal()
	}
}

func (b *Bound) fault(err error) {
	b.faults = append(b.faults, err)
	b.signal()
}

func (b *Bound) signal() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// Binds returns the observed binds, by namespace/name.
func (b *Bound) Binds() map[string]Bind {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.binds)
}

// Until returns when n pods are bound. It gives up with the first fault of the watch, when
// alive returns an error (called every second), or when ctx ends; its error has the number of
// bound pods.
func (b *Bound) Until(ctx context.Context, n int, alive func() error) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		b.mu.Lock()
		seen, changed, faults := len(b.binds), b.changed, b.faults
		b.mu.Unlock()
		if len(faults) > 0 {
			return faults[0]
		}
		if seen >= n {
			return nil
		}
		select {
		case <-changed:
		case <-tick.C:
			if err := alive(); err != nil {
				return err
			}
		case <-ctx.Done():
			return fmt.Errorf("%d of %d pods are bound: %w", seen, n, context.Cause(ctx))
		}
	}
}
