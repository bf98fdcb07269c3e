// Package history stores what ran of each profile, as ControllerRevisions in Berth's
// namespace. After a restart, Berth finds there the last spec that served; it finds
// specs that crash the process; and kubectl alone can roll back.
//
// Only the leader writes, except for what RecordCrash and Close write. When the API server
// accepts no write, the history is kept in memory and the caller gets the reason: a missing
// history never stops scheduling.
package history

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes/typed/apps/v1"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/compile"
)

const (
	// Probation is how long a revision must run in one process before it is proved.
	Probation = 10 * time.Minute
	// MaxRevisionSize is the largest revision that is stored, in bytes of JSON. etcd
	// accepts 1.5 MiB by default; a third of that is left for the rest of the object.
	MaxRevisionSize = 1 << 20
	// ServedFraction is the part of Probation, as a divisor, after which a revision is
	// preferred as a replacement for others.
	ServedFraction = 10
	// MaxRevisions is how many revisions of a profile are kept.
	MaxRevisions = 10
	// DeletedProfileRetention is how long the revisions of a deleted profile are kept.
	DeletedProfileRetention = 24 * time.Hour

	// callTimeout bounds one request, and one call for which a swap waits.
	callTimeout = 5 * time.Second
	// maxFailedReads is how many reads of a profile's history may fail in a row before
	// the profile is reconciled without it.
	maxFailedReads = 3
)

// Options are the dependencies and settings of a History.
type Options struct {
	// Revisions is the client for Berth's namespace; nil keeps the history in memory. It
	// should write only while this process leads: one that was frozen goes on before it
	// knows that it has a successor, and would count the death of that one.
	Revisions v1.ControllerRevisionInterface
	// Unfenced is the client of RecordCrash, which followers call, too, and of Close, which
	// a process calls that lost the Lease: both write what no leader undoes. nil for
	// Revisions.
	Unfenced v1.ControllerRevisionInterface
	// Process identifies this process among all that ever ran, as Crash.Process does.
	Process string
	Clock   clock.Clock
	// Probation replaces the constant Probation when it is not 0.
	Probation time.Duration
}

// History is safe for concurrent use. Calls for one profile must not overlap.
type History struct {
	options Options
	cluster store
	memory  *memoryStore
	// unfenced is cluster, or memory where there is none, with Options.Unfenced.
	unfenced store

	mu sync.Mutex
	// failedReads counts the failed reads in a row, by profile.
	failedReads map[string]int
}

// store holds ControllerRevisions: clusterStore or memoryStore.
type store interface {
	list(ctx context.Context, which labels.Selector) ([]appsv1.ControllerRevision, error)
	create(ctx context.Context, r *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error)
	update(ctx context.Context, r *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error)
	delete(ctx context.Context, r *appsv1.ControllerRevision) error
}

// New returns a History. It reads nothing yet.
func New(o Options) *History {
	memory := &memoryStore{}
	h := &History{options: o, memory: memory, unfenced: memory, failedReads: map[string]int{}}
	if o.Probation == 0 {
		h.options.Probation = Probation
	}
	if o.Revisions != nil {
		h.cluster = &clusterStore{o.Revisions}
		h.unfenced = h.cluster
	}
	if o.Unfenced != nil {
		h.unfenced = &clusterStore{o.Unfenced}
	}
	return h
}

// Begin records that this process is about to build and run a revision, which is on
// probation unless it was proved before. It must be called before the build, since a
// plugin may crash the process as soon as it is built. The caller calls undo when the
// build fails. A revision that cannot be stored is kept in memory, and NotStored says
// why.
func (h *History) Begin(ctx context.Context, l *ProfileHistory, s RevisionSpec) (undo func(context.Context)) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	undo, err := h.begin(ctx, l, s)
	if apierrors.IsConflict(err) && h.reload(ctx, l) {
		undo, err = h.begin(ctx, l, s)
	}
	if err == nil {
		return undo
	}
	l.NotStored = NotStored{Reason: h.notStoredReason(err), Final: l.NotStored.Final || errors.Is(err, errTooLarge)}
	list, _ := h.memory.list(ctx, ofProfile(s.Profile))
	inMemory := h.newProfileHistory(h.memory, s.Profile, list, NotStored{})
	undo, _ = h.begin(ctx, inMemory, s)
	_ = inMemory.prune(ctx, compile.RevisionName(s.Profile, s.Hash)) // memory returns no errors
	return undo
}

// reload reads the entries again after another process changed one: a replica that
// starts records on revisions why the process before it crashed. It reports whether it
// could.
func (h *History) reload(ctx context.Context, l *ProfileHistory) bool {
	list, err := l.store.list(ctx, ofProfile(l.profile))
	if err != nil {
		return false
	}
	read := h.newProfileHistory(l.store, l.profile, list, l.NotStored)
	maps.Copy(read.proved, l.proved)
	l.entries, l.modified, l.proved = read.entries, read.modified, read.proved
	h.CountDeaths(l)
	if l.reapplyRetry != nil {
		l.reapplyRetry()
	}
	return true
}

func (h *History) notStoredReason(err error) string {
	if apierrors.IsNotFound(err) {
		return "there is no namespace to store it in: " + err.Error()
	}
	return err.Error()
}

var errTooLarge = errors.New("too large")

func (h *History) begin(ctx context.Context, l *ProfileHistory, s RevisionSpec) (undo func(context.Context), err error) {
	if len(s.Data) > MaxRevisionSize {
		return func(context.Context) {}, fmt.Errorf("%w: with its arguments inline the profile has %d bytes, at most %d (1 MiB) are stored",
			errTooLarge, len(s.Data), MaxRevisionSize)
	}
	name := compile.RevisionName(s.Profile, s.Hash)
	before := l.entries[name]
	entry, err := l.storeEntry(ctx, before, h.newEntry(l, s))
	if err != nil {
		return nil, err
	}
	l.entries[name] = entry
	delete(l.modified, name)
	return func(ctx context.Context) { h.undoBegin(ctx, l, before, entry) }, nil
}

// storeEntry writes an entry in place of before. The data of a ControllerRevision
// cannot be changed, so an entry with the same hash and other data is created again.
func (l *ProfileHistory) storeEntry(ctx context.Context, before, entry *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	switch {
	case before == nil:
		return l.store.create(ctx, entry)
	case sameData(before, entry):
		return l.store.update(ctx, entry)
	}
	if err := l.store.delete(ctx, before); err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	entry.UID, entry.ResourceVersion = "", ""
	return l.store.create(ctx, entry)
}

// undoBegin reverts Begin. It ignores errors: a revision that never ran does no harm,
// except that it may be tried when nothing else can run.
func (h *History) undoBegin(ctx context.Context, l *ProfileHistory, before, entry *appsv1.ControllerRevision) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	if before == nil {
		_ = l.store.delete(ctx, entry)
		delete(l.entries, entry.Name)
		return
	}
	before.ResourceVersion, before.UID = entry.ResourceVersion, entry.UID
	if sameData(before, entry) {
		_, _ = l.store.update(ctx, before)
	}
}
