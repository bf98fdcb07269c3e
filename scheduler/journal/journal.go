// Package journal keeps, in one ConfigMap, the pods that have a Binding under way
// whose resource version carries PodScheduled=False. A new leader reads it: it
// fences these pods, and leaves alone all others that carry a refusal.
//
// A pod's UID is committed before its Binding is sent. Commits share writes: while
// one write is under way the next batch gathers. A UID leaves with a later write,
// when the outcome of its Binding is known for certain. Each write names the
// resource version of the one before, so that a late write of an earlier leader
// fails. ADR 22 has the argument.
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

	"github.com/berthdev/berth/scheduler/fault"
)

// Name is the ConfigMap's, in Berth's namespace.
const Name = "berth-bindings"

const (
	// Places is how many pods may be committed at a time. Four times as many as
	// Bindings may be under way: the next ones are committed meanwhile.
	Capacity = 256
	// writeInterval is the least time between two writes.
	writeInterval = 20 * time.Millisecond
	// writeTimeout is how long one request may take.
	writeTimeout = 10 * time.Second
	// retryPause is how long an API server that fails is left alone.
	retryPause = time.Second
	// commitTimeout is how long a pod waits for its commit.
	commitTimeout = 15 * time.Second
)

// ErrNotCommitted says that a Binding must not be sent: its pod is not in the
// journal.
var ErrNotCommitted = errors.New("the Binding was not sent: its pod could not be written into the journal of Bindings")

// Options are what a Journal is built from. All fields are required.
type Options struct {
	// Client writes the ConfigMap, in Berth's namespace. It must send nothing once
	// this process does not lead any more.
	Client corev1.ConfigMapInterface
	// Holder names this process; no other process has the same.
	Holder string
	Clock  clock.WithTickerAndDelayedExecution
	// Go starts the writer beside the caller.
	Go func(func())
	// Wait waits for a channel, or for the end of ctx.
	Wait func(ctx context.Context, until <-chan struct{}) error
	Log  logr.Logger
}

// Journal is the ConfigMap as one leader writes it. Its methods may be called from
// any goroutine; Take comes first.
type Journal struct {
	options Options

	mu sync.Mutex
	// open says that Bindings need no commit: the next leader fences every pod.
	commitsOptional bool
	// taken says that this process has written the journal, as own.
	takenOver bool
	own       content
	// carried are pods of earlier leaders that are not fenced yet.
	inherited sets.Set[types.UID]
	// version is the resource version that the next write replaces; unless known,
	// the journal is read first.
	resourceVersion string
	versionKnown    bool
	// stored are the pods in the version that the API server has.
	stored sets.Set[types.UID]
	// commits wait for a write, admissions for a place.
	commits []*commit
	// dirty says that there is something to be written beside commits.
	dirty      bool
	admissions []*commit
	// writing says that the writer runs, and tried when it tried last.
	writing bool
	lastTry time.Time

	// failed says that the last write failed.
	failed atomic.Bool
}

// commit is one pod that waits.
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
// being written, and for a place while Places pods are in it. The error is
// ErrNotCommitted; the Binding must not be sent then.
func (j *Journal) Commit(ctx context.Context, uid types.UID) error {
	if fault.JournalCommitSkipped {
		return nil
	}
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
	case <-c.done: // meanwhile
		return c.err
	default:
	}
	j.withdraw(c)
	return fmt.Errorf("%w: %w", ErrNotCommitted, context.Cause(ctx))
}

// enter queues a commit. It reports false when nothing has to be waited for.
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
		return false // the next write holds it as well
	}
	j.queueCommit(c)
	return true
}

// queue lets a commit wait for the next write. Called with the lock.
func (j *Journal) queueCommit(c *commit) {
	j.commits = append(j.commits, c)
	if !j.writing {
		j.writing = true
		j.options.Go(j.write)
	}
}

// Release notes that the outcome of the Binding that this process has sent is known for
// certain. The pod leaves the journal with the next write, unless an earlier leader may
// have sent one as well.
func (j *Journal) Release(uid types.UID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.release(uid)
}

// Forget notes that the pod is gone or has a node: no Binding of anybody can take effect
// any more.
func (j *Journal) Forget(uid types.UID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.inherited.Delete(uid)
	j.release(uid)
}

// release frees the pod's place. Called with the lock.
func (j *Journal) release(uid types.UID) {
	j.own.pods.Delete(uid)
	if fault.CarriedReleased {
		j.inherited.Delete(uid)
	}
	for len(j.admissions) > 0 && j.own.pods.Len() < Capacity {
		c := j.admissions[0]
		j.admissions = j.admissions[1:]
		j.own.pods.Insert(c.uid)
		j.queueCommit(c)
	}
}

// withdraw takes back a commit that is not waited for any more. Called with the
// lock.
func (j *Journal) withdraw(c *commit) {
	is := func(other *commit) bool { return other == c }
	before := len(j.commits) + len(j.admissions)
	j.commits, j.admissions = removeCommits(j.commits, is), removeCommits(j.admissions, is)
	if len(j.commits)+len(j.admissions) < before {
		j.release(c.uid)
	}
}
