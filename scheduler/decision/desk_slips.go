package decision

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/fault"
)

// verdict is what becomes of an explanation that is put.
type verdict int

const (
	wanted  verdict = iota
	known           // it says what was said
	late            // the pod is bound or gone
	tooMany         // there is no room
)

// judge says what becomes of e.
func (d *Desk) judge(e *Explanation, reasons uint64) verdict {
	s := d.slips[types.NamespacedName{Namespace: e.Namespace, Name: e.Pod}]
	if s != nil && s.uid == e.UID {
		switch {
		case s.gone, s.bound && e.Status.Result != v1alpha1.ResultBound:
			return late
		case s.reasons == reasons:
			return known
		}
	}
	at, _ := d.laneFor(s, e)
	if len(d.lanes[at]) >= room[at] && (s == nil || s.waits == nil || s.waits.lane != at) {
		return tooMany
	}
	return wanted
}

// put has e wait, which judge wanted.
func (d *Desk) put(e *Explanation, reasons uint64) {
	name := types.NamespacedName{Namespace: e.Namespace, Name: e.Pod}
	s := d.slips[name]
	if s == nil {
		s = &slip{name: name, uid: e.UID}
		d.slips[name] = s
	}
	if s.uid != e.UID { // its namesake replaces it, on the desk and in the cluster
		d.unwait(s)
		s.uid, s.bound, s.gone = e.UID, false, false
	}
	s.reasons = reasons
	d.unleave(s)
	if e.Status.Result == v1alpha1.ResultBound {
		s.bound = true
		d.leave(s, leaving, d.now().Add(leaveAfter))
	}
	d.wait(s, &ticket{slip: s, explanation: e, reasons: reasons})
}

// wait puts t in line in place of what waits of s, unless the object says so
// already; what it says is not known while the writer is at it. What comes later
// keeps the place of what it replaces.
func (d *Desk) wait(s *slip, t *ticket) {
	before := s.waits
	d.unwait(s)
	if (!s.out || fault.NewsWhileWritingLost) && s.stands && s.owner == s.uid && s.written == t.reasons {
		return
	}
	t.lane, t.due = d.laneFor(s, t.explanation)
	if before != nil && before.lane == t.lane {
		t.due, t.order = before.due, before.order
	}
	s.waits = d.queue(t)
}

func (d *Desk) unwait(s *slip) {
	d.unqueue(s.waits)
	s.waits = nil
}

// bound has the object of s go now, unless it records the bind.
func (d *Desk) bound(s *slip) {
	s.bound = true
	if s.waits != nil && s.waits.explanation.Status.Result != v1alpha1.ResultBound {
		d.unwait(s)
	}
	if s.leaves == nil {
		due := d.now()
		if fault.BoundExplainedOn {
			due = due.Add(leaveAfter)
		}
		d.leave(s, outdated, due)
	}
	d.tidy(s)
}

// gone has the object of s go now.
func (d *Desk) gone(s *slip) {
	s.gone = true
	d.unwait(s)
	d.leave(s, leaving, d.now())
	d.tidy(s)
}

// unsay has the object of s go now, which may be written anew.
func (d *Desk) unsay(s *slip) {
	s.reasons = 0
	s.gone = fault.UnsaidForGood
	d.unwait(s)
	d.leave(s, leaving, d.now())
}

// leave has the object of s go at due, when it is the turn of that lane.
func (d *Desk) leave(s *slip, lane int, due time.Time) {
	d.unleave(s)
	s.leaves = d.queue(&ticket{slip: s, lane: lane, due: due})
}

func (d *Desk) unleave(s *slip) {
	d.unqueue(s.leaves)
	s.leaves = nil
}

// tidy forgets s when nothing is left to be done about it, and its pod needs no
// memory.
func (d *Desk) tidy(s *slip) {
	if s.out || s.stands || s.waits != nil || !s.bound && !s.gone {
		return
	}
	d.unleave(s)
	delete(d.slips, s.name)
}
