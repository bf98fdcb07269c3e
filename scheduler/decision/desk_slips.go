package decision

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/fault"
)

// verdict is what becomes of an explanation that is put.
type putVerdict int

const (
	putAccepted  putVerdict = iota
	putUnchanged            // it says what was said
	putTooLate              // the pod is bound or gone
	putFull                 // there is no room
)

// judge says what becomes of e.
func (d *ExplanationQueue) evaluatePut(e *Explanation, reasons uint64) putVerdict {
	s := d.records[types.NamespacedName{Namespace: e.Namespace, Name: e.Pod}]
	if s != nil && s.uid == e.UID {
		switch {
		case s.podDeleted, s.podBound && e.Status.Result != v1alpha1.ResultBound:
			return putTooLate
		case s.reasons == reasons:
			return putUnchanged
		}
	}
	at, _ := d.kindOf(s, e)
	if len(d.heaps[at]) >= capacity[at] && (s == nil || s.pending == nil || s.pending.kind != at) {
		return putFull
	}
	return putAccepted
}

// put has e wait, which judge wanted.
func (d *ExplanationQueue) store(e *Explanation, reasons uint64) {
	name := types.NamespacedName{Namespace: e.Namespace, Name: e.Pod}
	s := d.records[name]
	if s == nil {
		s = &podRecord{name: name, uid: e.UID}
		d.records[name] = s
	}
	if s.uid != e.UID { // its namesake replaces it, on the desk and in the cluster
		d.clearPending(s)
		s.uid, s.podBound, s.podDeleted = e.UID, false, false
	}
	s.reasons = reasons
	d.cancelDeletion(s)
	if e.Status.Result == v1alpha1.ResultBound {
		s.podBound = true
		d.scheduleDeletion(s, deletionItems, d.now().Add(boundRetention))
	}
	d.setPending(s, &item{record: s, explanation: e, reasons: reasons})
}

// wait puts t in line in place of what waits of s, unless the object says so
// already; what it says is not known while the writer is at it. What comes later
// keeps the place of what it replaces.
func (d *ExplanationQueue) setPending(s *podRecord, t *item) {
	before := s.pending
	d.clearPending(s)
	if (!s.inProgress || fault.NewsWhileWritingLost) && s.objectExists && s.owner == s.uid && s.writtenReasons == t.reasons {
		return
	}
	t.kind, t.due = d.kindOf(s, t.explanation)
	if before != nil && before.kind == t.kind {
		t.due, t.sequence = before.due, before.sequence
	}
	s.pending = d.push(t)
}

func (d *ExplanationQueue) clearPending(s *podRecord) {
	d.remove(s.pending)
	s.pending = nil
}

// bound has the object of s go now, unless it records the bind.
func (d *ExplanationQueue) markPodBound(s *podRecord) {
	s.podBound = true
	if s.pending != nil && s.pending.explanation.Status.Result != v1alpha1.ResultBound {
		d.clearPending(s)
	}
	if s.deletion == nil {
		due := d.now()
		if fault.BoundExplainedOn {
			due = due.Add(boundRetention)
		}
		d.scheduleDeletion(s, outdatedItems, due)
	}
	d.forgetIfDone(s)
}

// gone has the object of s go now.
func (d *ExplanationQueue) markPodDeleted(s *podRecord) {
	s.podDeleted = true
	d.clearPending(s)
	d.scheduleDeletion(s, deletionItems, d.now())
	d.forgetIfDone(s)
}

// unsay has the object of s go now, which may be written anew.
func (d *ExplanationQueue) withdraw(s *podRecord) {
	s.reasons = 0
	s.podDeleted = fault.UnsaidForGood
	d.clearPending(s)
	d.scheduleDeletion(s, deletionItems, d.now())
}

// leave has the object of s go at due, when it is the turn of that lane.
func (d *ExplanationQueue) scheduleDeletion(s *podRecord, lane int, due time.Time) {
	d.cancelDeletion(s)
	s.deletion = d.push(&item{record: s, kind: lane, due: due})
}

func (d *ExplanationQueue) cancelDeletion(s *podRecord) {
	d.remove(s.deletion)
	s.deletion = nil
}

// tidy forgets s when nothing is left to be done about it, and its pod needs no
// memory.
func (d *ExplanationQueue) forgetIfDone(s *podRecord) {
	if s.inProgress || s.objectExists || s.pending != nil || !s.podBound && !s.podDeleted {
		return
	}
	d.cancelDeletion(s)
	delete(d.records, s.name)
}
