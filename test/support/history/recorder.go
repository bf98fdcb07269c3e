package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
)

// retryAfter is how long the recorder waits before it resumes a broken watch.
const retryAfter = 50 * time.Millisecond

// Bind is an observed bind: its time, and the leader epoch.
type Bind struct {
	Seen  time.Time
	Epoch int64
}

// decision is a part of a bound pod's annotation.
type decision struct{ Epoch int64 }

// epochOf returns the leader epoch in a bound pod's annotation; 0 where it has none.
func epochOf(pod *corev1.Pod) int64 {
	var d decision
	_ = json.Unmarshal([]byte(pod.Annotations[v1alpha1.AnnotationDecision]), &d) // the checker reports an invalid one
	return d.Epoch
}

// Recorder records the history of a cluster. Its methods are safe for concurrent use.
type Recorder struct {
	etcd etcd
	stop context.CancelFunc
	done sync.WaitGroup

	mu        sync.Mutex
	history   History
	objects   map[string]client.Object // by key: the last version
	revisions map[string]int64         // by key
	binds     []Bind
	boundPods []types.NamespacedName
	bound     map[types.UID]bool
	errs      []error
	changed   chan struct{} // closed and replaced at each answer of etcd, and each error
}

// Start records from a revision on until Stop. url is that of etcd's clients. From revision 1 the
// history is complete, unless etcd has compacted it: then it begins with a list of all objects,
// as it does from revision 0.
func Start(ctx context.Context, url string, from int64) (*Recorder, error) {
	r := &Recorder{
		etcd: etcd{url}, objects: map[string]client.Object{}, revisions: map[string]int64{}, bound: map[types.UID]bool{},
		changed: make(chan struct{}), history: History{Undecoded: map[string]int{}, Last: from - 1},
	}
	if from == 0 {
		if err := r.list(ctx); err != nil {
			return nil, fmt.Errorf("listing what etcd has: %w", err)
		}
		r.history.Gaps = nil // what was before is not part of the history
	}
	ctx, r.stop = context.WithCancel(context.WithoutCancel(ctx)) // the caller's ctx may be that of a spec
	r.done.Go(func() { r.run(ctx) })
	return r, nil
}

// Stop ends the recording; what was recorded stays.
func (r *Recorder) Stop() {
	r.stop()
	r.done.Wait()
}

// run watches until ctx ends.
func (r *Recorder) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := r.etcd.watch(ctx, r.last()+1, r.add)
		if compacted := (*compactedError)(nil); errors.As(err, &compacted) {
			first := r.last() == 0
			if err = r.list(ctx); err == nil && first {
				r.mu.Lock()
				r.history.Gaps = nil // the history begins here
				r.mu.Unlock()
			}
		}
		if err != nil {
			select { // etcd is down, or was restarted
			case <-time.After(retryAfter):
			case <-ctx.Done():
			}
		}
	}
}

func (r *Recorder) last() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.history.Last
}

// list adds what differs from the last versions, and a gap.
func (r *Recorder) list(ctx context.Context) error {
	var found []keyValue
	at, err := r.etcd.list(ctx, func(kv keyValue) { found = append(found, kv) })
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Gaps = append(r.history.Gaps, Gap{r.history.Last, at})
	gone := maps.Clone(r.revisions)
	for _, kv := range found {
		key := string(kv.Key)
		if r.revisions[key] != kv.ModRevision {
			r.addLocked(kv, true)
		}
		delete(gone, key)
	}
	for _, key := range slices.Sorted(maps.Keys(gone)) {
		r.addLocked(keyValue{Key: []byte(key), ModRevision: at}, true)
	}
	r.history.Last = at
	r.signal()
	return nil
}

func (r *Recorder) add(kv keyValue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addLocked(kv, false)
	r.history.Last = max(r.history.Last, kv.ModRevision)
	r.signal()
}

// addLocked adds a version of a key. The caller holds the lock.
func (r *Recorder) addLocked(kv keyValue, listed bool) {
	key, resource := string(kv.Key), resourceOf(string(kv.Key))
	if !isRead(resource) {
		return
	}
	change := Change{Revision: kv.ModRevision, Seen: time.Now(), Listed: listed, Size: len(kv.Value)}
	if kv.Value == nil {
		change.Object, change.Deleted = r.objects[key], true
		delete(r.objects, key)
		delete(r.revisions, key)
		if change.Object == nil {
			return // it was never decoded, or created and deleted within a gap
		}
	} else {
		object, err := Decode(kv.Value, kv.ModRevision)
		if err != nil {
			r.history.Undecoded[resource]++
			return
		}
		change.Object, r.objects[key], r.revisions[key] = object, object, kv.ModRevision
	}
	r.history.Changes = append(r.history.Changes, change)
	if pod, is := change.Object.(*corev1.Pod); is {
		r.addBind(pod, change)
	}
}

// addBind records the first version with a node as a bind.
func (r *Recorder) addBind(pod *corev1.Pod, change Change) {
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	switch {
	case change.Deleted:
		r.boundPods = slices.DeleteFunc(r.boundPods, func(n types.NamespacedName) bool { return n == name })
	case pod.Spec.NodeName != "" && !r.bound[pod.UID]:
		r.bound[pod.UID] = true
		r.boundPods = append(r.boundPods, name)
		r.binds = append(r.binds, Bind{change.Seen, epochOf(pod)})
	}
}

// Fail marks the history as invalid: Until and History return the error.
func (r *Recorder) Fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err)
	r.signal()
}

// signal wakes those that wait. The caller holds the lock.
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
	return r.until(ctx, "binds", func() bool { return done(r.binds) })
}

// until returns when done, which is called with the lock held, returns true.
func (r *Recorder) until(ctx context.Context, what string, done func() bool) error {
	for {
		r.mu.Lock()
		ok, changed, errs := done(), r.changed, r.errs
		r.mu.Unlock()
		switch {
		case len(errs) > 0:
			return errs[0]
		case ok:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		}
	}
}

// CatchUp returns once all that etcd had when it was called is in the history.
func (r *Recorder) CatchUp(ctx context.Context) error {
	now, err := r.etcd.revision(ctx)
	if err != nil {
		return err
	}
	return r.until(ctx, fmt.Sprintf("revision %d of etcd", now), func() bool { return r.history.Last >= now })
}

// History returns what was recorded so far, and the errors of Fail.
func (r *Recorder) History() (History, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := History{Changes: slices.Clone(r.history.Changes), Gaps: slices.Clone(r.history.Gaps), Undecoded: maps.Clone(r.history.Undecoded), Last: r.history.Last}
	h.Sort()
	return h, errors.Join(r.errs...)
}
