package decision

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Standing is a SchedulingDecision that was there before the Desk was.
type Standing struct {
	Namespace, Pod string
	// Owner is the UID of the pod that it is about, Object its own.
	Owner, Object types.UID
	// Written is when it was written last.
	Written time.Time
	// Stale says that it is about a pod that is gone.
	Stale bool
	// Bound is when its pod was bound; zero while that waits.
	Bound time.Time
}

// Found tells the Desk of an object that it does not know of. The pod counts as
// explained, with reasons that are not known: the next explanation updates it.
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
	if s.uid != o.Owner {
		return // its namesake, of which more is known, replaces it
	}
	if t := s.waits; t != nil {
		d.wait(s, t)
	}
	switch {
	case s.waits != nil || s.leaves != nil:
	case o.Stale:
		d.leave(s, d.now())
	case !o.Bound.IsZero():
		s.bound = true
		d.leave(s, d.past(o.Bound).Add(leaveAfter))
	}
}

// past is t, or now where another's clock is ahead.
func (d *Desk) past(t time.Time) time.Time {
	if now := d.now(); t.After(now) {
		return now
	}
	return t
}
