package decision

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/scheduler/fault"
)

// Standing is a SchedulingDecision that was there before the Desk was.
type ExistingObject struct {
	Namespace, Pod string
	// Owner is the UID of the pod that it is about, Object its own.
	Owner, Object types.UID
	// Written is when it was written last, Status what it says, of which only the reasons
	// are kept.
	WrittenAt time.Time
	Status    Status
	// Stale says that it is about a pod that is gone.
	PodDeleted bool
	// Bound is when its pod was bound; zero while that waits.
	BoundAt time.Time
}

// Found tells the Desk of an object that it does not know of. The pod counts as
// explained: the next explanation updates the object if it gives other reasons.
func (d *ExplanationQueue) AddExisting(o ExistingObject) {
	name := types.NamespacedName{Namespace: o.Namespace, Name: o.Pod}
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.notify()
	s := d.records[name]
	if s == nil {
		s = &podRecord{name: name, uid: o.Owner}
		d.records[name] = s
	}
	s.objectExists, s.object, s.owner, s.writtenAt = true, o.Object, o.Owner, d.notAfterNow(o.WrittenAt)
	if !fault.FoundReasonsUnknown {
		s.writtenReasons = reasonsOf(&o.Status)
	}
	if s.uid != o.Owner {
		return // its namesake, of which more is known, replaces it
	}
	if t := s.pending; t != nil {
		d.setPending(s, t)
	}
	switch {
	case s.pending != nil || s.deletion != nil:
	case o.PodDeleted:
		d.scheduleDeletion(s, deletionItems, d.now())
	case o.WrittenAt.After(o.BoundAt) && !o.BoundAt.IsZero(): // it records the bind
		s.podBound = true
		d.scheduleDeletion(s, deletionItems, d.notAfterNow(o.BoundAt).Add(boundRetention))
	case !o.BoundAt.IsZero():
		s.podBound = true
		d.scheduleDeletion(s, outdatedItems, d.now())
	}
}

// past is t, or now where another's clock is ahead.
func (d *ExplanationQueue) notAfterNow(t time.Time) time.Time {
	if now := d.now(); t.After(now) {
		return now
	}
	return t
}
