// Package history records all versions of pods and nodes of a cluster in the order of their
// resource versions, and finds violations: a pod that was bound twice, a node with more
// than it offers, a leader that bound after its successor, a pod that is pending while
// there is room.
//
// It knows nothing of the scheduler under test but the annotation of bound pods. The
// recorder watches without bookmarks from the first version on. A watch that breaks is
// resumed; if it cannot be, the recorder fails, since the history is incomplete.
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
	// Deleted says that the object was deleted, and this is its last version.
	Deleted bool
}

// Bind is an observed bind: its time, and the leader epoch.
type Bind struct {
	Seen  time.Time
	Epoch int64
}

// Recorder records the history of a cluster. Its methods are safe for concurrent use.
type Recorder struct {
	stop context.CancelFunc
	done sync.WaitGroup

	mu        sync.Mutex
	changes   []Change
	binds     []Bind
	boundPods []types.NamespacedName
	bound     map[types.UID]bool
	errs      []error
	changed   chan struct{} // closed and replaced at each bind and error
}

// Start begins with all existing pods and nodes, and records until Stop.
func Start(ctx context.Context, client kubernetes.Interface) (*Recorder, error) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx)) // the caller's ctx may be that of a spec
	r := &Recorder{stop: stop, bound: map[types.UID]bool{}, changed: make(chan struct{})}
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
		r.add(&nodes.Items[i], false)
	}
	for i := range pods.Items {
		r.add(&pods.Items[i], false)
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
		r.done.Go(func() { r.consume(ctx, watcher.ResultChan()) })
	}
	return r, nil
}

// Stop ends the recording; what was recorded stays.
func (r *Recorder) Stop() {
	r.stop()
	r.done.Wait()
}

func (r *Recorder) consume(ctx context.Context, events <-chan watch.Event) {
	for event := range events {
		switch event.Type {
		case watch.Added, watch.Modified, watch.Deleted:
			r.add(event.Object, event.Type == watch.Deleted)
		case watch.Error:
			r.Fail(fmt.Errorf("the history is incomplete: %w", apierrors.FromObject(event.Object)))
		}
	}
	if ctx.Err() == nil {
		r.Fail(errors.New("the history is incomplete: a watch ended"))
	}
}

// add adds a version, without fields that no check reads.
func (r *Recorder) add(object runtime.Object, gone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change := Change{Deleted: gone}
	switch o := object.(type) {
	case *corev1.Pod:
		o.ManagedFields = nil
		change.Pod, change.Version = o, version(o)
		r.addBind(o, gone)
	case *corev1.Node:
		o.ManagedFields, o.Status.Images, o.Status.Conditions = nil, nil, nil
		change.Node, change.Version = o, version(o)
	}
	r.changes = append(r.changes, change)
}

// addBind records the first version with a node as a bind.
func (r *Recorder) addBind(pod *corev1.Pod, gone bool) {
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	switch {
	case gone:
		r.boundPods = slices.DeleteFunc(r.boundPods, func(n types.NamespacedName) bool { return n == name })
	case pod.Spec.NodeName != "" && !r.bound[pod.UID]:
		r.bound[pod.UID] = true
		r.boundPods = append(r.boundPods, name)
		decided, _ := readDecision(pod) // Check reports an invalid annotation
		r.binds = append(r.binds, Bind{time.Now(), decided.Epoch})
		r.signal()
	}
}

func version(o metav1.Object) uint64 {
	n, _ := strconv.ParseUint(o.GetResourceVersion(), 10, 64) // an invalid version sorts first
	return n
}

// Fail marks the history as invalid.
func (r *Recorder) Fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err)
	r.signal()
}

func (r *Recorder) signal() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// BoundPods returns the pods that have a node, in the order of their binds.
func (r *Recorder) BoundPods() []types.NamespacedName {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.boundPods)
}

// Binds returns the binds so far, in order.
func (r *Recorder) Binds() []Bind {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.binds)
}

// Until returns when done returns true for the binds so far, or with an error.
func (r *Recorder) Until(ctx context.Context, done func([]Bind) bool) error {
	for {
		r.mu.Lock()
		binds, changed, faults := r.binds, r.changed, r.errs
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

// Changes returns all changes in the order of their versions, and the errors of the
// recorder.
func (r *Recorder) Changes() ([]Change, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changes := slices.Clone(r.changes)
	slices.SortStableFunc(changes, func(a, b Change) int {
		return cmp.Compare(a.Version, b.Version)
	})
	return changes, errors.Join(r.errs...)
}
