// Package journal stores, in one ConfigMap, the pods that have a Binding under way
// whose resource version carries PodScheduled=False. A new leader reads it and
// fences these pods; it need not fence the others that carry PodScheduled=False.
//
// A pod's UID is committed before its Binding is sent. Commits share writes: while
// one write is under way, the next batch gathers. A UID is removed by a later write,
// once the outcome of its Binding is certain. Each write names the resource version
// of the one before, so that a late write of an earlier leader fails. ADR 22 has the
// argument.
package journal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"
)

// Name is the name of the ConfigMap, in Berth's namespace.
const Name = "berth-bindings"

const (
	// Capacity is how many pods the journal can hold. It is four times the number of
	// Bindings that may be under way, so that further pods are committed meanwhile.
	Capacity = 256
	// writeInterval is the minimum time between two writes.
	writeInterval = 20 * time.Millisecond
	// writeTimeout is the timeout of one request.
	writeTimeout = 10 * time.Second
	// retryPause is the pause after a request that failed.
	retryPause = time.Second
	// probeInterval is the time between two writes of an idle journal that could not be
	// written.
	probeInterval = time.Minute
	// commitTimeout is how long a pod waits for its commit.
	commitTimeout = 15 * time.Second
)

// ErrNotCommitted says that a Binding must not be sent, because its pod is not in
// the journal.
var ErrNotCommitted = errors.New("the Binding was not sent: its pod could not be written into the journal of Bindings")

// Options are the dependencies of a Journal. All fields are required.
type Options struct {
	// Client writes the ConfigMap, in Berth's namespace. It must send nothing once this
	// process does not lead any more.
	Client corev1.ConfigMapInterface
	// Holder identifies this process; no other process has the same.
	Holder string
	Clock  clock.WithTickerAndDelayedExecution
	// Go starts the writer in a goroutine.
	Go func(func())
	// Wait waits until the channel is closed or ctx ends.
	Wait func(ctx context.Context, until <-chan struct{}) error
	Log  logr.Logger
}

// Journal is the ConfigMap as one leader writes it. It is safe for concurrent use;
// TakeOver has to be called first.
type Journal struct {
	options Options

	mu sync.Mutex
	// commitsOptional says that Bindings need no commit: the next leader fences every
	// pod.
	commitsOptional bool
	// takenOver says that this process has written the journal, own being what it wrote.
	takenOver bool
	own       content
	// inherited are pods of earlier leaders that are not fenced yet.
	inherited sets.Set[types.UID]
	// resourceVersion is the version that the next write replaces. Unless versionKnown,
	// the journal is read first.
	resourceVersion string
	versionKnown    bool
	// stored are the pods in the version that the API server has.
	stored sets.Set[types.UID]
	// commits wait for a write, admissions for a free entry.
	commits []*commit
	// dirty says that something other than commits has to be written.
	dirty      bool
	admissions []*commit
	// closing is closed when a write says that the journal is closed; nil until Close.
	closing chan struct{}
	// writing says that the writer runs; lastTry is when it last began a write.
	writing bool
	lastTry time.Time

	// failed says that the last write failed.
	failed atomic.Bool
}

// commit is one pod that waits to be written.
type commit struct {
	uid  types.UID
	done chan struct{}
	err  error
}

// New returns the journal of a process that does not lead yet.
func New(o Options) *Journal {
	return &Journal{options: o, stored: sets.New[types.UID](), inherited: sets.New[types.UID](), own: content{holder: o.Holder, pods: sets.New[types.UID]()}}
}

// Commit returns nil once the journal holds the pod. It blocks while the journal is
// being written, and while Capacity pods are in it. Otherwise it returns
// ErrNotCommitted, and the Binding must not be sent.
func (j *Journal) Commit(ctx context.Context, uid types.UID) error {
	c := &commit{uid: uid, done: make(chan struct{})}
	if !j.enqueue(c) {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer j.options.Clock.AfterFunc(commitTimeout, func() {
		cancel(fmt.Errorf("no answer within %v", commitTimeout))
	}).Stop()
	if j.options.Wait(ctx, c.done) == nil {
		return c.err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	select {
	case <-c.done: // completed meanwhile
		return c.err
	default:
	}
	j.withdraw(c)
	return fmt.Errorf("%w: %w", ErrNotCommitted, context.Cause(ctx))
}

// enqueue queues a commit. It returns false when there is nothing to wait for.
func (j *Journal) enqueue(c *commit) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.commitsOptional {
		return false
	}
	if !j.own.pods.Has(c.uid) && j.own.pods.Len() >= Capacity {
		j.admissions = append(j.admissions, c)
		return true
	}
	j.own.pods.Insert(c.uid)
	if j.stored.Has(c.uid) && j.versionKnown && !j.writing {
		return false // it is stored, and the next write keeps it
	}
	j.queueCommit(c)
	return true
}

// queueCommit adds a commit to the next write, and starts the writer if it does not
// run. The caller holds j.mu.
func (j *Journal) queueCommit(c *commit) {
	j.commits = append(j.commits, c)
	if !j.writing {
		j.writing = true
		j.options.Go(j.write)
	}
}

// Release records that the outcome of the Binding which this process sent is
// certain. The next write removes the pod, unless an earlier leader may have sent a
// Binding as well.
func (j *Journal) Release(uid types.UID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.release(uid)
}

// Forget records that the pod was deleted or has a node: no Binding of any process
// can take effect any more.
func (j *Journal) Forget(uid types.UID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.inherited.Delete(uid)
	j.release(uid)
}

// release frees the pod's entry, and admits commits that wait for one. The caller
// holds j.mu.
func (j *Journal) release(uid types.UID) {
	j.own.pods.Delete(uid)
	for len(j.admissions) > 0 && j.own.pods.Len() < Capacity {
		c := j.admissions[0]
		j.admissions = j.admissions[1:]
		j.own.pods.Insert(c.uid)
		j.queueCommit(c)
	}
}

// withdraw removes a commit whose caller does not wait any more. The caller holds
// j.mu.
func (j *Journal) withdraw(c *commit) {
	isCommit := func(other *commit) bool { return other == c }
	before := len(j.commits) + len(j.admissions)
	j.commits, j.admissions = removeCommits(j.commits, isCommit), removeCommits(j.admissions, isCommit)
	if len(j.commits)+len(j.admissions) < before {
		j.release(c.uid)
	}
}
