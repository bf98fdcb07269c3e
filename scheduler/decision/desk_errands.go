package decision

import (
	"container/heap"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/fault"
)

// Verb is what is to be done about a SchedulingDecision.
type Verb string

// The verbs of errands.
const (
	// Create: as far as is known there is none of that name.
	Create Verb = "create"
	// Replace: there is one of that name, about a pod that is no more.
	Replace Verb = "replace"
	// Update: it stands, and says something else.
	Update Verb = "update"
	// Delete: its pod is bound, or no more, or is not to be explained any more.
	Delete Verb = "delete"
)

// Errand is one thing to be done about one SchedulingDecision. Whoever takes it
// ends it, with Written, Deleted, Again, Refused or Moot, before the next.
type Errand struct {
	Verb Verb
	// Namespace and Pod name the object, and the pod with UID that it is about.
	Namespace, Pod string
	UID            types.UID
	// Object is the UID of the object that stands; empty where there is none, or
	// it is not known.
	Object types.UID
	// Explanation is what it shall say; nil for Delete.
	Explanation *Explanation
	// Outdated says that the object says why a pod waits which is bound by now.
	Outdated bool

	ticket *ticket
}

// Take returns what is to be done next. When there is nothing yet it reports
// false, and when there will be: never, if that is zero.
//
// What is outdated goes before all else, and leaves each tenth turn to that. Of the
// others, first explanations go before updates, and those before the records of bound
// pods; deletions take every other turn.
func (d *Desk) Take() (Errand, time.Time, bool) { return d.take(d.next) }

// TakeOutdated is Take where nothing is to be done but what is outdated.
func (d *Desk) TakeOutdated() (Errand, time.Time, bool) { return d.take(d.nextOutdated) }

// take takes the ticket that choose returns, or returns when there will be one.
func (d *Desk) take(choose func() (*ticket, time.Time)) (Errand, time.Time, bool) {
	d.mu.Lock()
	var missed []string
	defer func() {
		d.mu.Unlock()
		for _, profile := range missed {
			d.drop(profile)
		}
	}()
	for {
		t, next := choose()
		if t == nil {
			return Errand{}, next, false
		}
		heap.Pop(&d.lanes[t.lane])
		s := t.slip
		if t.explanation != nil {
			s.waits = nil
			return d.errand(t), time.Time{}, true
		}
		s.leaves = nil
		if s.waits != nil { // it had its minute, and no turn in it
			missed = append(missed, s.waits.explanation.Status.Profile.Name)
			d.unwait(s)
		}
		if s.stands {
			return d.errand(t), time.Time{}, true
		}
		delete(d.slips, s.name)
	}
}

// next returns the ticket whose turn it is, or when one will be due.
func (d *Desk) next() (*ticket, time.Time) {
	now := d.now()
	var due [lanes]*ticket
	var soonest time.Time
	for i, l := range d.lanes {
		if len(l) == 0 {
			continue
		}
		if !l[0].due.After(now) {
			due[i] = l[0]
		} else if soonest.IsZero() || l[0].due.Before(soonest) {
			soonest = l[0].due
		}
	}
	if due[outdated] != nil && d.outdatedBefore < outdatedInARow {
		return due[outdated], now
	}
	if due[leaving] != nil && !d.leaverBefore {
		return due[leaving], now
	}
	for lane, t := range due {
		if t != nil && lane != outdated && (lane != leaving || fault.DeletionsInARow) {
			return t, now
		}
	}
	if due[leaving] != nil {
		return due[leaving], now
	}
	if due[outdated] != nil {
		return due[outdated], now
	}
	return nil, soonest
}

// nextOutdated is next among what is outdated.
func (d *Desk) nextOutdated() (*ticket, time.Time) {
	l, now := d.lanes[outdated], d.now()
	switch {
	case len(l) == 0:
		return nil, time.Time{}
	case l[0].due.After(now):
		return nil, l[0].due
	}
	return l[0], now
}

// errand is what t asks for.
func (d *Desk) errand(t *ticket) Errand {
	explaining.Set(float64(d.len()))
	if t.lane == outdated {
		d.outdatedBefore++
	} else {
		d.leaverBefore, d.outdatedBefore = t.lane == leaving, 0
	}
	s := t.slip
	s.out = true
	e := Errand{
		Namespace: s.name.Namespace, Pod: s.name.Name, UID: s.uid, Object: s.object,
		Explanation: t.explanation, Outdated: t.lane == outdated, ticket: t,
	}
	switch {
	case t.explanation == nil:
		e.Verb = Delete
		e.UID = s.owner
	case s.stands && s.owner == s.uid:
		e.Verb = Update
	case s.stands && s.owner != "":
		e.Verb = Replace
	default:
		e.Verb = Create
	}
	return e
}

// Written ends an errand: the object with that UID says it.
func (d *Desk) Written(e Errand, object types.UID) {
	d.end(e, func(s *slip) {
		s.stands, s.object, s.owner = true, object, e.UID
		s.written, s.at = e.ticket.reasons, d.now()
	})
	explained.WithLabelValues(string(e.Verb)).Inc()
}

// Deleted ends an errand: there is no such object any more.
func (d *Desk) Deleted(e Errand) {
	d.end(e, func(s *slip) {
		s.vanish()
	})
	explained.WithLabelValues(string(e.Verb)).Inc()
}

// vanish notes that there is no object, and nothing to remember unless its pod
// is explained anew.
func (s *slip) vanish() {
	s.stands, s.object, s.owner, s.written = false, "", "", 0
	s.gone = s.gone || s.waits == nil
}

// Again puts an errand back in line until due, unless there is something newer
// to be said. unsure says that it may have been done all the same.
func (d *Desk) Again(e Errand, due time.Time, unsure bool) {
	d.end(e, func(s *slip) {
		t := e.ticket
		if unsure {
			s.written = 0
		}
		if unsure && (e.Verb == Create || e.Verb == Replace) {
			s.stands, s.object, s.owner = true, "", ""
		}
		switch {
		case e.Verb == Delete && s.leaves == nil && s.waits == nil:
			t.due = due
			s.leaves = d.queue(t)
		case e.Verb != Delete && s.waits == nil && s.uid == e.UID && s.reasons == t.reasons && !s.gone &&
			(!s.bound || e.Explanation.Status.Result == v1alpha1.ResultBound):
			t.due = due
			s.waits = d.queue(t)
		}
	})
}

// Refused ends an errand that the API server will never have. It is counted as
// dropped, and not tried again until there is something else to be said.
func (d *Desk) Refused(e Errand) {
	d.end(e, func(s *slip) {
		if e.Verb == Delete {
			s.vanish()
		}
	})
	if e.Explanation != nil {
		d.drop(e.Explanation.Status.Profile.Name)
	}
}

// Moot ends an errand whose pod is bound, or else is gone.
func (d *Desk) Moot(e Errand, bound bool) {
	d.end(e, func(s *slip) {
		switch {
		case s.uid != e.UID:
		case bound:
			d.bound(s)
		default:
			d.gone(s)
		}
	})
}

// end has f note what came of an errand, and moves what was put meanwhile to
// where it belongs now.
func (d *Desk) end(e Errand, f func(*slip)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := e.ticket.slip
	s.out = false
	f(s)
	if t := s.waits; t != nil && t != e.ticket {
		d.wait(s, t)
	}
	d.tidy(s)
	d.tell()
}
