package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// Change is one version of a pod or a node. Exactly one of them is set.
type Change struct {
	Version uint64
	Pod     *corev1.Pod
	Node    *corev1.Node
	// Gone says that the object is no more, and was last as it is here.
	Gone bool
}

// Bind is one bind as it was seen: when, and of which leadership.
type Bind struct {
	Seen  time.Time
	Epoch int64
}

// Record is the history of a cluster so far. Its methods are safe for concurrent
// use.
type Record struct {
	stop context.CancelFunc
	done sync.WaitGroup

	mu      sync.Mutex
	changes []Change
	binds   []Bind
	placed  []types.NamespacedName
	bound   map[types.UID]bool
	faults  []error
	changed chan struct{} // closed and replaced at each bind and fault
}

// Start records what happens from now on, and begins with all pods and nodes that
// there are. It goes on until Stop.
func Start(ctx context.Context, client kubernetes.Interface) (*Record, error) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx)) // whoever starts it may be a part of a test
	r := &Record{stop: stop, bound: map[types.UID]bool{}, changed: make(chan struct{})}
	pods, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		stop()
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		stop()
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	for i := range nodes.Items {
		r.note(&nodes.Items[i], false)
	}
	for i := range pods.Items {
		r.note(&pods.Items[i], false)
	}
	for _, w := range []struct {
		from  string
		watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
	}{
		{pods.ResourceVersion, client.CoreV1().Pods(metav1.NamespaceAll).Watch},
		{nodes.ResourceVersion, client.CoreV1().Nodes().Watch},
	} {
		watcher, err := watchtools.NewRetryWatcherWithContext(ctx, w.from, &cache.ListWatch{WatchFuncWithContext: w.watch})
		if err != nil {
			r.Stop()
			return nil, fmt.Errorf("watching: %w", err)
		}
		r.done.Go(func() { r.follow(ctx, watcher.ResultChan()) })
	}
	return r, nil
}

// Stop ends the record; what was recorded stays.
func (r *Record) Stop() {
	r.stop()
	r.done.Wait()
}

func (r *Record) follow(ctx context.Context, events <-chan watch.Event) {
	for event := range events {
		switch event.Type {
		case watch.Added, watch.Modified, watch.Deleted:
			r.note(event.Object, event.Type == watch.Deleted)
		case watch.Error:
			r.Fail(fmt.Errorf("the record has a hole: %w", apierrors.FromObject(event.Object)))
		}
	}
	if ctx.Err() == nil {
		r.Fail(errors.New("the record has a hole: a watch ended"))
	}
}

// note adds one version, without what no check reads.
func (r *Record) note(object runtime.Object, gone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change := Change{Gone: gone}
	switch o := object.(type) {
	case *corev1.Pod:
		o.ManagedFields = nil
		change.Pod, change.Version = o, version(o)
		r.see(o, gone)
	case *corev1.Node:
		o.ManagedFields, o.Status.Images, o.Status.Conditions = nil, nil, nil
		change.Node, change.Version = o, version(o)
	}
	r.changes = append(r.changes, change)
}

// see notes where a pod is.
func (r *Record) see(pod *corev1.Pod, gone bool) {
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	switch {
	case gone:
		r.placed = slices.DeleteFunc(r.placed, func(n types.NamespacedName) bool { return n == name })
	case pod.Spec.NodeName != "" && !r.bound[pod.UID]:
		r.bound[pod.UID] = true
		r.placed = append(r.placed, name)
		decided, _ := decisionOf(pod) // what it lacks is for the check to say
		r.binds = append(r.binds, Bind{time.Now(), decided.Epoch})
		r.wake()
	}
}

func version(o metav1.Object) uint64 {
	n, _ := strconv.ParseUint(o.GetResourceVersion(), 10, 64) // it is a number, else it sorts first
	return n
}

// Fail notes that the history is worth nothing, and why.
func (r *Record) Fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, err)
	r.wake()
}

func (r *Record) wake() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// Placed are the pods that are on nodes, in the order of their binds.
func (r *Record) Placed() []types.NamespacedName {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.placed)
}

// Binds are all so far, in order.
func (r *Record) Binds() []Bind {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.binds)
}

// Until returns when the binds so far are as done wants them, or says why it gave
// up waiting.
func (r *Record) Until(ctx context.Context, done func([]Bind) bool) error {
	for {
		r.mu.Lock()
		binds, changed, faults := r.binds, r.changed, r.faults
		r.mu.Unlock()
		switch {
		case len(faults) > 0:
			return faults[0]
		case done(binds):
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for binds, after %d: %w", len(binds), context.Cause(ctx))
		}
	}
}

// Changes are all that was recorded, in the order of their versions, and what was
// wrong with the record.
func (r *Record) Changes() ([]Change, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changes := slices.Clone(r.changes)
	slices.SortStableFunc(changes, func(a, b Change) int {
		return cmp.Compare(a.Version, b.Version)
	})
	return changes, errors.Join(r.faults...)
}
