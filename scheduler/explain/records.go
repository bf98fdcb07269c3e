package explain

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
)

// putVerdict says what Put does with an explanation.
type putVerdict int

const (
	putAccepted  putVerdict = iota
	putUnchanged            // the reasons are those that were put last
	putTooLate              // the pod is bound or deleted
	putFull                 // too many items of the kind wait
)

// evaluatePut returns what Put does with e. The caller holds the lock.
func (q *Queue) evaluatePut(e *decision.Explanation, reasons uint64) putVerdict {
	r := q.records[types.NamespacedName{Namespace: e.Namespace, Name: e.Pod}]
	if r != nil && r.uid == e.UID {
		switch {
		case r.podDeleted, r.podBound && e.Status.Result != v1alpha1.ResultBound:
			return putTooLate
		case r.reasons == reasons:
			return putUnchanged
		}
	}
	at, _ := q.kindOf(r, e)
	if len(q.heaps[at]) >= capacity[at] && (r == nil || r.pending == nil || r.pending.kind != at) {
		return putFull
	}
	return putAccepted
}

// store adds e, which evaluatePut accepted. The caller holds the lock.
func (q *Queue) store(e *decision.Explanation, reasons uint64) {
	name := types.NamespacedName{Namespace: e.Namespace, Name: e.Pod}
	r := q.records[name]
	if r == nil {
		r = &podRecord{name: name, uid: e.UID}
		q.records[name] = r
	}
	if r.uid != e.UID { // a new pod of the same name
		q.clearPending(r)
		r.uid, r.podBound, r.podDeleted = e.UID, false, false
	}
	r.reasons = reasons
	q.cancelDeletion(r)
	if e.Status.Result == v1alpha1.ResultBound {
		r.podBound = true
		q.scheduleDeletion(r, deletionItems, q.now().Add(boundRetention))
	}
	q.setPending(r, &item{record: r, explanation: e, reasons: reasons})
}

// setPending adds an item in place of the record's pending one, unless the object has
// these reasons already; what the object has is unknown while a task is in progress. The
// new item keeps the due time and sequence of one of the same kind, but does not wait for
// gatedGroupDelay because that one did.
func (q *Queue) setPending(r *podRecord, it *item) {
	before := r.pending
	q.clearPending(r)
	if !r.inProgress && r.objectExists && r.owner == r.uid && r.writtenReasons == it.reasons {
		return
	}
	it.kind, it.due = q.kindOf(r, it.explanation)
	if before != nil && before.kind == it.kind {
		it.sequence = before.sequence
		if isOfGatedGroup(it.explanation) || !isOfGatedGroup(before.explanation) {
			it.due = before.due
		}
	}
	r.pending = q.push(it)
}

func (q *Queue) clearPending(r *podRecord) {
	q.remove(r.pending)
	r.pending = nil
}

// markPodBound schedules the deletion of the object for now, unless it records the bind.
func (q *Queue) markPodBound(r *podRecord) {
	r.podBound = true
	if r.pending != nil && r.pending.explanation.Status.Result != v1alpha1.ResultBound {
		q.clearPending(r)
	}
	if r.deletion == nil || r.passed {
		q.scheduleDeletion(r, outdatedItems, q.now())
	}
	q.forgetIfDone(r)
}

// markPodDeleted schedules the deletion of the object for now.
func (q *Queue) markPodDeleted(r *podRecord) {
	r.podDeleted = true
	q.clearPending(r)
	q.scheduleDeletion(r, deletionItems, q.now())
	q.forgetIfDone(r)
}

// withdraw schedules the deletion of the object, which may be written again later.
func (q *Queue) withdraw(r *podRecord) {
	r.reasons = 0
	r.podDeleted = false
	q.clearPending(r)
	q.scheduleDeletion(r, deletionItems, q.now())
}

// markPassed schedules the deletion of the object for passedDelay later, and for
// minUpdateInterval after its last write at the earliest: a pod whose binding fails again and
// again does not need two writes for each attempt. The reasons of a later Put may be those that the
// object has still.
func (q *Queue) markPassed(r *podRecord) {
	r.reasons = 0
	q.clearPending(r)
	due := q.now().Add(passedDelay)
	if next := r.writtenAt.Add(minUpdateInterval); r.objectExists && next.After(due) {
		due = next
	}
	q.scheduleDeletion(r, deletionItems, due)
	r.passed = true
}

// scheduleDeletion adds a deletion of that kind at due.
func (q *Queue) scheduleDeletion(r *podRecord, kind int, due time.Time) {
	q.cancelDeletion(r)
	r.deletion = q.push(&item{record: r, kind: kind, due: due})
}

func (q *Queue) cancelDeletion(r *podRecord) {
	q.remove(r.deletion)
	r.deletion, r.passed = nil, false
}

// forgetIfDone deletes the record of a bound or deleted pod when neither an object nor a
// task of it is left.
func (q *Queue) forgetIfDone(r *podRecord) {
	if r.inProgress || r.objectExists || r.pending != nil || !r.podBound && !r.podDeleted {
		return
	}
	q.cancelDeletion(r)
	delete(q.records, r.name)
}

// ExistingObject is a SchedulingDecision that the API server has.
type ExistingObject struct {
	Namespace, Pod string
	// Owner is the UID of its pod, Object its own UID.
	Owner, Object types.UID
	// WrittenAt is when it was last written. Status is its content, of which the queue keeps
	// a hash of the reasons; empty where it is unknown.
	WrittenAt time.Time
	Status    v1alpha1.SchedulingDecisionStatus
	// PodDeleted says that its pod was deleted.
	PodDeleted bool
	// BoundAt is when its pod was bound; zero while the pod is pending.
	BoundAt time.Time
}

// AddExisting adds an object that an earlier process wrote, unless it is known. A later Put
// updates the object only if its reasons differ. An object that is added after the first
// task was sent by an earlier leader and arrived late: it is deleted, unless the pod's own
// explanation is about to be written over it. No task may be in progress.
func (q *Queue) AddExisting(o ExistingObject) {
	name := types.NamespacedName{Namespace: o.Namespace, Name: o.Pod}
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.records[name]
	if r != nil && r.objectExists && r.object == o.Object {
		return
	}
	defer q.notify()
	if r == nil {
		r = &podRecord{name: name, uid: o.Owner}
		q.records[name] = r
	}
	r.objectExists, r.object, r.owner, r.writtenAt = true, o.Object, o.Owner, q.withMonotonicClock(o.WrittenAt)
	r.writtenReasons = reasonsOf(&o.Status)
	if it := r.pending; it != nil && r.uid == o.Owner {
		q.setPending(r, it)
	}
	switch {
	case r.pending != nil || r.deletion != nil:
	case r.uid != o.Owner: // it is about an earlier pod of that name
		q.withdraw(r)
	case o.PodDeleted:
		q.scheduleDeletion(r, deletionItems, q.now())
	case o.Status.Result == v1alpha1.ResultBound && !o.BoundAt.IsZero():
		r.podBound = true
		q.scheduleDeletion(r, deletionItems, q.withMonotonicClock(o.BoundAt).Add(boundRetention))
	case !o.BoundAt.IsZero():
		r.podBound = true
		q.scheduleDeletion(r, outdatedItems, q.now())
	case q.taken && r.writtenReasons != r.reasons:
		q.withdraw(r)
	}
}

// withMonotonicClock returns t, or now where the clock that gave t is ahead. A time that was
// read from an object has no monotonic clock: were the wall clock set back, what is due after
// it would wait until the clock came there again.
func (q *Queue) withMonotonicClock(t time.Time) time.Time {
	now := q.now()
	return now.Add(-max(0, now.Sub(t)))
}
