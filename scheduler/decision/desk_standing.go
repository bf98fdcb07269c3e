package decision

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/scheduler/fault"
)

// Standing is a SchedulingDecision that was there before the Desk was.
type Standing struct {
	Namespace, Pod string
	// Owner is the UID of the pod that it is about, Object its own.
	Owner, Object types.UID
	// Written is when it was written last, Status what it says, of which only the reasons
	// are kept.
	Written time.Time
	Status  Status
	// Stale says that it is about a pod that is gone.
	Stale bool
	// Bound is when its pod was bound; zero while that waits.
	Bound time.Time
}

// Found tells the Desk of an object that it does not know of. The pod counts as
// explained: the next explanation updates the object if it gives other reasons.
func (d *Desk) Found(o Standing) {
	name := types.NamespacedName{Namespace: o.Namespace, Name: o.Pod}
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.tell()
	s := d.slips[name]
	if s == nil {
		s = &slip{name: name, uid: o.Owner}
		d.slips[name] = s
	}
	s.stands, s.object, s.owner, s.at = true, o.Object, o.Owner, d.past(o.Written)
	if !fault.FoundReasonsUnknown {
		s.written = reasonsOf(&o.Status)
	}
	if s.uid != o.Owner {
		return // its namesake, of which more is known, replaces it
	}
	if t := s.waits; t != nil {
		d.wait(s, t)
	}
	switch {
	case s.waits != nil || s.leaves != nil:
	case o.Stale:
		d.leave(s, leaving, d.now())
	case o.Written.After(o.Bound) && !o.Bound.IsZero(): // it records the bind
		s.bound = true
		d.leave(s, leaving, d.past(o.Bound).Add(leaveAfter))
	case !o.Bound.IsZero():
		s.bound = true
		d.leave(s, outdated, d.now())
	}
}

// past is t, or now where another's clock is ahead.
func (d *Desk) past(t time.Time) time.Time {
	if now := d.now(); t.After(now) {
		return now
	}
	return t
}
