// Package history keeps what ran of each profile, as ControllerRevisions in
// Berth's namespace, so that a restart finds the last good spec, a spec that
// takes the process down is found out, and kubectl alone can roll back.
//
// The leader alone writes. Where nothing can be written, history is kept in
// memory and whoever asks is told so: it is never a reason not to schedule.
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
	"github.com/berthdev/berth/scheduler/fault"
)

const (
	// Probation is how long a revision must have run in one process before it
	// is trusted.
	Probation = 10 * time.Minute
	// MaxSize is the largest revision that is stored, in bytes of JSON: of the 1.5 MiB
	// that etcd takes as it is shipped, a third is for what else is in the object.
	MaxRevisionSize = 1 << 20
	// Served is the part of Probation after which a revision may replace another.
	ServedFraction = 10
	// Kept is how many revisions a profile has at most.
	MaxRevisions = 10
	// Grace is how long revisions outlive their profile.
	DeletedProfileRetention = 24 * time.Hour

	// callTimeout bounds one call: a swap waits for it.
	callTimeout = 5 * time.Second
	// patienceWithReads is how often a profile is not looked at because its
	// history could not be read, before it is looked at without.
	maxFailedReads = 3
)

// Options are what a History is made from.
type Options struct {
	// Revisions are those of Berth's namespace; nil keeps history in memory.
	Revisions v1.ControllerRevisionInterface
	// Namespace is Berth's, for messages.
	Namespace string
	// Process names this process among all that ever ran, as Crash.Process does.
	Process string
	Clock   clock.Clock
	// Probation replaces the constant of that name where it is not 0.
	Probation time.Duration
}

// History is safe for concurrent use; calls about one profile never overlap.
type History struct {
	options Options
	cluster store
	memory  *memoryStore

	mu sync.Mutex
	// unread counts by profile the reads that failed in a row.
	failedReads map[string]int
}

// shelf is where revisions are kept.
type store interface {
	list(ctx context.Context, which labels.Selector) ([]appsv1.ControllerRevision, error)
	create(ctx context.Context, r *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error)
	update(ctx context.Context, r *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error)
	delete(ctx context.Context, r *appsv1.ControllerRevision) error
}

// New returns a History that has read nothing yet.
func New(o Options) *History {
	h := &History{options: o, memory: &memoryStore{}, failedReads: map[string]int{}}
	if o.Probation == 0 {
		h.options.Probation = Probation
	}
	if o.Revisions != nil {
		h.cluster = &clusterStore{o.Revisions}
	}
	return h
}

// Begin notes that this process is about to build and run a revision, which is
// on probation unless it proved itself before. It comes before the build: a
// plugin may take the process down as soon as it is made. What it returns takes
// the note back, for when the build fails. A revision that cannot be stored is
// remembered, and Trouble says why.
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
	l.NotStoredReason = h.notStoredReason(err)
	list, _ := h.memory.list(ctx, ofProfile(s.Profile))
	kept := h.newProfileHistory(h.memory, s.Profile, list, "")
	undo, _ = h.begin(ctx, kept, s)
	return undo
}

// readAgain reads the entries anew after another process wrote to one: a replica
// that starts notes on revisions what the process before it died of.
func (h *History) reload(ctx context.Context, l *ProfileHistory) bool {
	list, err := l.store.list(ctx, ofProfile(l.profile))
	if err != nil {
		return false
	}
	now := h.newProfileHistory(l.store, l.profile, list, l.NotStoredReason)
	maps.Copy(now.proved, l.proved)
	l.entries, l.modified, l.proved = now.entries, now.modified, now.proved
	h.CountDeaths(l)
	if l.reapplyRetry != nil && !fault.ConflictsUndoRetry {
		l.reapplyRetry()
	}
	return true
}

// shelf is where revisions are kept.
func (h *History) currentStore() store {
	if h.cluster == nil {
		return h.memory
	}
	return h.cluster
}

func (h *History) notStoredReason(err error) string {
	if apierrors.IsNotFound(err) {
		return "there is no namespace to keep it in: " + err.Error()
	}
	return err.Error()
}

var errTooLarge = errors.New("too large")

func (h *History) begin(ctx context.Context, l *ProfileHistory, s RevisionSpec) (undo func(context.Context), err error) {
	if len(s.Data) > MaxRevisionSize || fault.LargeRevisionsNotStored && len(s.Data) > 64<<10 {
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

// put stores an entry in the place of what is there. The data of what is there
// cannot be changed, so another spec of the same hash replaces it.
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

// takeBack undoes Begin. What fails is left: a revision that never ran does no
// harm but to be tried where nothing else can be.
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
